"""Every filter against the library it is named after (docs/parity.md): scaling
through the daemon and through cv2 or Pillow, up and down, one axis each way,
odd sizes, smooth pictures and hard edges."""

import os
import subprocess
import tempfile
import unittest
from collections.abc import Callable

import cv2
import numpy
from daemon_fixture import BIN_DIR, DaemonTest
from PIL import Image
from pictures import make_picture

# Source and destination, width first.
SIZES = (
    ((640, 360), (320, 180)),
    ((641, 479), (640, 640)),
    ((333, 777), (224, 224)),
    ((97, 61), (640, 640)),
    ((101, 53), (37, 211)),
    ((300, 200), (299, 199)),
    ((128, 128), (64, 300)),
    ((57, 31), (31, 57)),
    ((1023, 511), (129, 65)),
    ((16, 9), (640, 360)),
)

Resize = Callable[[numpy.ndarray, tuple[int, int]], numpy.ndarray]


def opencv(interpolation: int) -> Resize:
    return lambda picture, size: cv2.resize(
        picture, size, interpolation=interpolation
    )


def pillow(resample: int) -> Resize:
    return lambda picture, size: numpy.asarray(
        Image.fromarray(picture).resize(size, resample)
    )


# Filter, library, largest difference.
PEERS = (
    ("bilinear", "cv2 INTER_LINEAR", opencv(cv2.INTER_LINEAR), 1),
    ("area", "cv2 INTER_AREA", opencv(cv2.INTER_AREA), 1),
    ("bicubic", "cv2 INTER_CUBIC", opencv(cv2.INTER_CUBIC), 1),
    ("bilinear-aa", "Pillow BILINEAR", pillow(Image.BILINEAR), 1),
    ("bicubic-aa", "Pillow BICUBIC", pillow(Image.BICUBIC), 1),
    ("lanczos3", "Pillow LANCZOS", pillow(Image.LANCZOS), 1),
)
NEAREST_PEERS = (
    ("cv2 INTER_NEAREST_EXACT", opencv(cv2.INTER_NEAREST_EXACT)),
    ("Pillow NEAREST", pillow(Image.NEAREST)),
)


def hard_edges(width: int, height: int) -> numpy.ndarray:
    random = numpy.random.default_rng(width * 4096 + height)
    cells = random.integers(0, 2, ((height + 2) // 3, (width + 2) // 3, 3))
    edges = cells.repeat(3, axis=0).repeat(3, axis=1)[:height, :width] * 255
    return edges.astype(numpy.uint8)


def pictures(size: tuple[int, int]) -> tuple[tuple[str, numpy.ndarray], ...]:
    width, height = size
    return (
        ("smooth", make_picture(width, height, seed=width)),
        ("edges", hard_edges(width, height)),
    )


def ultralytics_letterbox(picture: numpy.ndarray, side: int) -> numpy.ndarray:
    """The recipe that YOLO models are trained with: scale to fit, rounded
    sides, halves of the rest left and right, rounded apart by 0.1."""
    height, width = picture.shape[:2]
    ratio = min(side / height, side / width)
    inner = round(width * ratio), round(height * ratio)
    pad_x, pad_y = (side - inner[0]) / 2, (side - inner[1]) / 2
    if inner != (width, height):
        picture = cv2.resize(picture, inner, interpolation=cv2.INTER_LINEAR)
    top, bottom = round(pad_y - 0.1), round(pad_y + 0.1)
    left, right = round(pad_x - 0.1), round(pad_x + 0.1)
    return cv2.copyMakeBorder(
        picture,
        top,
        bottom,
        left,
        right,
        cv2.BORDER_CONSTANT,
        value=(114, 114, 114),
    )


class LibraryParityTest(DaemonTest):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def convert(
        self, picture: numpy.ndarray, size: tuple[int, int], *arguments: str
    ) -> numpy.ndarray:
        source = os.path.join(self.folder, "source.png")
        tensor = os.path.join(self.folder, "t.npy")
        Image.fromarray(picture).save(source, compress_level=1)
        done = subprocess.run(
            [
                os.path.join(BIN_DIR, "preprocctl"),
                "--runtime-dir",
                self.daemon.folder,
                "convert",
                source,
                "-o",
                tensor,
                "--size",
                f"{size[0]}x{size[1]}",
                *arguments,
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return numpy.load(tensor).reshape(size[1], size[0], -1)

    def test_weighted_filters(self) -> None:
        for name, library, resize, most in PEERS:
            largest = 0
            equal = []
            for source, size in SIZES:
                for kind, picture in pictures(source):
                    got = self.convert(
                        picture, size, "--fit", "stretch", "--filter", name
                    )
                    expected = resize(picture, size)
                    difference = numpy.abs(
                        got.astype(int) - expected.astype(int)
                    )
                    with self.subTest(
                        filter=name, source=source, size=size, kind=kind
                    ):
                        self.assertLessEqual(int(difference.max()), most)
                    largest = max(largest, int(difference.max()))
                    equal.append(float(numpy.mean(difference == 0)))
            print(
                f"{name:12} {library:18} largest {largest}, "
                f"equal {100 * numpy.mean(equal):.2f} % "
                f"(least {100 * min(equal):.2f} %)"
            )

    def test_nearest_differs_at_ties_only(self) -> None:
        for library, resize in NEAREST_PEERS:
            equal = []
            for source, size in SIZES:
                picture = make_picture(*source, seed=1)
                got = self.convert(
                    picture, size, "--fit", "stretch", "--filter", "nearest"
                )
                expected = resize(picture, size)
                with self.subTest(library=library, source=source, size=size):
                    self.assert_ties_only(got, expected, source, size)
                equal.append(float(numpy.mean(got == expected)))
            print(
                f"nearest      {library:23} equal "
                f"{100 * numpy.mean(equal):.2f} % (least {100 * min(equal):.2f} %)"
            )

    def assert_ties_only(
        self,
        got: numpy.ndarray,
        expected: numpy.ndarray,
        source: tuple[int, int],
        size: tuple[int, int],
    ) -> None:
        """Where centres lie between two source pixels, within a thousandth
        of one: OpenCV steps in 16-bit fractions."""

        def ties(axis: int) -> numpy.ndarray:
            centers = (numpy.arange(size[axis]) + 0.5) * source[axis] / size[axis]
            return numpy.abs(centers - numpy.rint(centers)) < 0.001

        tie = ties(1)[:, None] | ties(0)[None, :]
        differs = (got != expected).any(axis=2)
        self.assertFalse((differs & ~tie).any())

    def test_ultralytics_letterbox(self) -> None:
        for width, height in ((1280, 720), (333, 777), (641, 479), (97, 61)):
            picture = make_picture(width, height, seed=3)
            got = self.convert(
                picture,
                (640, 640),
                "--fit",
                "letterbox",
                "--letterbox-rule",
                "ultralytics",
            )
            expected = ultralytics_letterbox(picture, 640)
            with self.subTest(size=(width, height)):
                self.assertEqual(got.shape, expected.shape)
                difference = numpy.abs(got.astype(int) - expected.astype(int))
                self.assertLessEqual(int(difference.max()), 1)

    def test_the_comparison_notices_another_filter(self) -> None:
        picture = hard_edges(300, 200)
        got = self.convert(
            picture, (150, 90), "--fit", "stretch", "--filter", "bilinear"
        )
        other = cv2.resize(picture, (150, 90), interpolation=cv2.INTER_AREA)
        self.assertGreater(
            int(numpy.abs(got.astype(int) - other.astype(int)).max()), 1
        )


if __name__ == "__main__":
    unittest.main()
