use polywarp_core::{*, backend::Backend}; use std::marker::PhantomData;
struct Nop; impl Backend for Nop {}
#[derive(Convert)] struct Mesh<B: Backend> { a: Buffer<B, f32>, b: Buffer<B, u8>, n: u32 }
#[derive(Convert)] struct Scene<'a, B: Backend> { n: u8, mesh: &'a mut Mesh<B>, out: BufferSliceMut<'a, B, f32> }
fn buf<T>(address: u64) -> Buffer<Nop, T> { Buffer { address, p: PhantomData } }
fn run<A: Convert<Nop>>(a: A) -> A::Repr { a.convert(&mut Conversion(PhantomData)).unwrap() }
#[test] fn values() {
  let mut m = Mesh { a: buf(1), b: buf(2), n: 3 };
  assert_eq!(format!("{:?}", run(&m)), "MeshRepr { a: r1, b: r2, n: 3 }");
  assert_eq!(format!("{:?}", run(&mut m)), "MeshRepr { a: w1, b: w2, n: 3 }");
  let mut s = Scene { n: 9, mesh: &mut m, out: BufferSliceMut { address: 7, p: PhantomData } };
  assert_eq!(format!("{:?}", run(&s)), "SceneRepr { n: 9, mesh: MeshRepr { a: r1, b: r2, n: 3 }, out: r7 }");
  assert_eq!(format!("{:?}", run(&mut s)), "SceneRepr { n: 9, mesh: MeshRepr { a: w1, b: w2, n: 3 }, out: w7 }");
  assert_eq!(format!("{:?}", run(s)), "SceneRepr { n: 9, mesh: MeshRepr { a: w1, b: w2, n: 3 }, out: w7 }");
}
