//! Spans and threads of a kernel stay on the thread that runs it.

use polywarp_core::{GlobalMut, HostSpan, HostSpanMut, Shared, Thread};

fn sent(value: impl Send) {
    drop(value);
}

fn kernel(thread: &Thread<'_>, x: HostSpan<'_, f32>, y: HostSpanMut<'_, f32>, z: GlobalMut<'_, f32>) {
    sent(x);
    sent(y);
    sent(z);
    sent(thread);
    sent(thread.shared::<f32>(0, 1));
}

fn main() {}
