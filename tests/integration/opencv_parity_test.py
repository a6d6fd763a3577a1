"""preprocctl convert --size 640x640 --fit letterbox against OpenCV: decode by
libjpeg-turbo (accurate DCT, fancy upsampling), cv2.resize INTER_LINEAR and
the same padding. At most 1 of 255 on 99.9 % of the values, never above 3."""

import os
import subprocess
import tempfile
import unittest

import cv2
import numpy
from daemon_fixture import BIN_DIR, DaemonTest
from pictures import encode, make_picture

SIDE = 640
PAD = 114
SIZES = (
    (1920, 1080),
    (1280, 720),
    (640, 480),
    (641, 479),
    (333, 777),
    (1023, 1025),
    (97, 61),
    (800, 801),
    (1001, 333),
    (64, 640),
)
SAME_SHARE = 0.999
MOST = 3


def round_half_away(value: float) -> int:
    return int(numpy.floor(value + 0.5))


def opencv_letterbox(content: bytes) -> numpy.ndarray:
    bgr = cv2.imdecode(
        numpy.frombuffer(content, numpy.uint8), cv2.IMREAD_COLOR
    )
    height, width = bgr.shape[:2]
    scale = min(SIDE / width, SIDE / height)
    w = max(1, round_half_away(width * scale))
    h = max(1, round_half_away(height * scale))
    resized = cv2.resize(bgr, (w, h), interpolation=cv2.INTER_LINEAR)
    left, top = (SIDE - w) // 2, (SIDE - h) // 2
    return cv2.cvtColor(
        cv2.copyMakeBorder(
            resized,
            top,
            SIDE - h - top,
            left,
            SIDE - w - left,
            cv2.BORDER_CONSTANT,
            value=(PAD, PAD, PAD),
        ),
        cv2.COLOR_BGR2RGB,
    )


class OpenCvParityTest(DaemonTest):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def convert(self, content: bytes, *arguments: str) -> numpy.ndarray:
        photo = os.path.join(self.folder, "photo.jpg")
        tensor = os.path.join(self.folder, "t.npy")
        with open(photo, "wb") as file:
            file.write(content)
        done = subprocess.run(
            [
                os.path.join(BIN_DIR, "preprocctl"),
                "--runtime-dir",
                self.daemon.folder,
                "convert",
                photo,
                "-o",
                tensor,
                "--size",
                f"{SIDE}x{SIDE}",
                "--fit",
                "letterbox",
                *arguments,
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return numpy.load(tensor)

    def assert_close(self, got: numpy.ndarray, expected: numpy.ndarray) -> None:
        self.assertEqual(got.shape, expected.shape)
        self.assertEqual(got.dtype, expected.dtype)
        difference = numpy.abs(got.astype(int) - expected.astype(int))
        share = float(numpy.mean(difference <= 1))
        text = (
            f"within 1: {100 * share:.3f} %, largest {difference.max()}, "
            f"mean {difference.mean():.4f}"
        )
        print(text)
        self.assertGreaterEqual(share, SAME_SHARE, text)
        self.assertLessEqual(int(difference.max()), MOST, text)

    def test_ten_sizes(self) -> None:
        for width, height in SIZES:
            content = encode(make_picture(width, height, seed=width), "JPEG")
            with self.subTest(size=(width, height)):
                print(f"{width}x{height}: ", end="")
                self.assert_close(
                    self.convert(content), opencv_letterbox(content)
                )

    def test_other_kinds_of_jpeg(self) -> None:
        for options in (
            {"subsampling": "4:4:4"},
            {"subsampling": "4:2:2"},
            {"progressive": True},
            {"quality": 30},
        ):
            content = encode(make_picture(501, 377, seed=7), "JPEG", **options)
            with self.subTest(**options):
                print(f"{options}: ", end="")
                self.assert_close(
                    self.convert(content), opencv_letterbox(content)
                )

    def test_grey_jpeg(self) -> None:
        content = encode(make_picture(501, 377)[:, :, 0], "JPEG")
        self.assert_close(
            self.convert(content, "--format", "rgb"), opencv_letterbox(content)
        )

    def test_the_comparison_notices_a_difference(self) -> None:
        content = encode(make_picture(640, 480), "JPEG")
        expected = opencv_letterbox(content)
        got = self.convert(content, "--filter", "nearest")
        self.assertEqual(got.shape, expected.shape)
        self.assertTrue((got == expected).mean() > 0.5)  # 1:1, padding too
        shifted = numpy.roll(expected, 1, axis=1)
        with self.assertRaises(AssertionError):
            self.assert_close(got, shifted)


if __name__ == "__main__":
    unittest.main()
