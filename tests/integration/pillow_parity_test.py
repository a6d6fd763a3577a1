"""preprocctl decode against Pillow on files that Pillow writes: JPEG and PNG
of every kind it knows. Pillow reads JPEG by libjpeg-turbo with its defaults
(accurate DCT, fancy upsampling) and PNG by its own decoder, so all values are
equal."""

import io
import itertools
import os
import subprocess
import tempfile
import unittest

import numpy
from daemon_fixture import BIN_DIR, DaemonTest
from pictures import encode, make_picture
from PIL import Image


class PillowParityTest(DaemonTest):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def decode(self, content: bytes, *arguments: str) -> numpy.ndarray:
        path = os.path.join(self.folder, "file")
        result = os.path.join(self.folder, "pixels.npy")
        with open(path, "wb") as file:
            file.write(content)
        done = subprocess.run(
            [
                os.path.join(BIN_DIR, "preprocctl"),
                "--runtime-dir",
                self.daemon.folder,
                "decode",
                path,
                "-o",
                result,
                *arguments,
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return numpy.load(result)

    def assert_equal_to_pillow(
        self, content: bytes, mode: str, format_name: str
    ) -> None:
        with Image.open(io.BytesIO(content)) as image:
            expected = numpy.asarray(image.convert(mode))
        got = self.decode(content, "--format", format_name)
        self.assertEqual(got.size, expected.size)
        numpy.testing.assert_array_equal(
            got.reshape(expected.shape), expected
        )

    def test_jpeg_of_every_sampling_quality_and_size(self) -> None:
        for number, (subsampling, quality) in enumerate(
            itertools.product(("4:4:4", "4:2:2", "4:2:0"), (5, 50, 95))
        ):
            width, height = 35 + 61 * number, 301 - 29 * number
            picture = make_picture(width, height, seed=number)
            for options in (
                {},
                {"progressive": True},
                {"optimize": True},
                {"restart_marker_rows": 1},
            ):
                with self.subTest(
                    subsampling=subsampling, quality=quality, **options
                ):
                    content = encode(
                        picture,
                        "JPEG",
                        subsampling=subsampling,
                        quality=quality,
                        **options,
                    )
                    self.assert_equal_to_pillow(content, "RGB", "rgb")

    def test_grey_jpeg(self) -> None:
        content = encode(make_picture(123, 77)[:, :, 0], "JPEG", subsampling=0)
        self.assert_equal_to_pillow(content, "L", "grey")
        self.assert_equal_to_pillow(content, "RGB", "rgb")

    def test_png_of_every_mode(self) -> None:
        colour = make_picture(151, 93, seed=3)
        alpha = make_picture(151, 93, seed=4)[:, :, :1]
        rgb = Image.fromarray(colour)
        for image, mode, format_name in (
            (rgb, "RGB", "rgb"),
            (rgb.convert("L"), "L", "grey"),
            (rgb.convert("1"), "L", "grey"),
            (rgb.quantize(200), "RGB", "rgb"),
            (rgb.quantize(13), "RGB", "rgb"),
            (
                Image.fromarray(numpy.concatenate([colour, alpha], axis=2)),
                "RGBA",
                "rgba",
            ),
            (
                Image.fromarray(
                    numpy.concatenate([colour[:, :, :1], alpha], axis=2), "LA"
                ),
                "RGBA",
                "rgba",
            ),
        ):
            for level in (0, 1, 9):
                with self.subTest(mode=image.mode, level=level):
                    out = io.BytesIO()
                    image.save(out, "PNG", compress_level=level)
                    self.assert_equal_to_pillow(
                        out.getvalue(), mode, format_name
                    )


if __name__ == "__main__":
    unittest.main(verbosity=2)
