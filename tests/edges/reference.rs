//! The definition of the edges, written down plainly: whole image after whole image, in wide integers and real angles.

struct Plane {
    width: i64,
    height: i64,
    values: Vec<i64>,
}

impl Plane {
    fn from_fn(width: i64, height: i64, value: impl Fn(i64, i64) -> i64) -> Self {
        let mut values = Vec::new();
        for y in 0..height {
            for x in 0..width {
                values.push(value(x, y));
            }
        }
        Self { width, height, values }
    }

    /// The value there; outside of the image, that of the border.
    fn clamped(&self, x: i64, y: i64) -> i64 {
        self.values[(y.clamp(0, self.height - 1) * self.width + x.clamp(0, self.width - 1)) as usize]
    }

    /// The value there; outside of the image, zero.
    fn or_zero(&self, x: i64, y: i64) -> i64 {
        if x < 0 || y < 0 || x >= self.width || y >= self.height { 0 } else { self.clamped(x, y) }
    }

    /// The sum of 5 × 5 or 3 × 3 weighted neighbours.
    fn convolve<const N: usize>(&self, x: i64, y: i64, weights: &[[i64; N]; N]) -> i64 {
        let reach = (N / 2) as i64;
        let mut sum = 0;
        for (row, dy) in weights.iter().zip(-reach..) {
            for (weight, dx) in row.iter().zip(-reach..) {
                sum += weight * self.clamped(x + dx, y + dy);
            }
        }
        sum
    }
}

const GAUSS: [[i64; 5]; 5] = [[1, 4, 6, 4, 1], [4, 16, 24, 16, 4], [6, 24, 36, 24, 6], [4, 16, 24, 16, 4], [1, 4, 6, 4, 1]];
const SOBEL_X: [[i64; 3]; 3] = [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]];
const SOBEL_Y: [[i64; 3]; 3] = [[-1, -2, -1], [0, 0, 0], [1, 2, 1]];

/// The edges of a picture given as red, green and blue.
pub(crate) fn edges(rgb: &[u8], width: usize, height: usize) -> Vec<u8> {
    let (w, h) = (width as i64, height as i64);
    let colour = |x: i64, y: i64, channel: i64| i64::from(rgb[(3 * (y * w + x) + channel) as usize]);
    let grey = Plane::from_fn(w, h, |x, y| (299 * colour(x, y, 0) + 587 * colour(x, y, 1) + 114 * colour(x, y, 2) + 500).div_euclid(1000));
    let smooth = Plane::from_fn(w, h, |x, y| (grey.convolve(x, y, &GAUSS) + 128).div_euclid(256));
    let gx = Plane::from_fn(w, h, |x, y| smooth.convolve(x, y, &SOBEL_X));
    let gy = Plane::from_fn(w, h, |x, y| smooth.convolve(x, y, &SOBEL_Y));
    let magnitude = Plane::from_fn(w, h, |x, y| gx.clamped(x, y).abs() + gy.clamped(x, y).abs());
    let thin = Plane::from_fn(w, h, |x, y| {
        let here = magnitude.clamped(x, y);
        let (dx, dy) = step(gx.clamped(x, y), gy.clamped(x, y));
        let stays = here > magnitude.or_zero(x - dx, y - dy) && here >= magnitude.or_zero(x + dx, y + dy);
        if stays { here.min(255) } else { 0 }
    });
    thin.values.iter().map(|&value| value as u8).collect()
}

/// The neighbour that the line along the gradient meets, right of the pixel or below it; the line's angle is rounded to 45°.
/// Whole numbers of this size come no closer to a boundary between two directions than some 10⁻⁷.
fn step(gx: i64, gy: i64) -> (i64, i64) {
    let degrees = (gy as f64).atan2(gx as f64).to_degrees();
    match (degrees / 45.0).round() as i64 {
        -4 | 0 | 4 => (1, 0),
        -3 | 1 => (1, 1),
        -2 | 2 => (0, 1),
        _ => (-1, 1),
    }
}
