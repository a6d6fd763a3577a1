"""The daemon's decoder against djpeg and pngcheck on files that cjpeg,
jpegtran and Pillow write, whole and damaged: what djpeg reads without a word
has djpeg's pixels, what it warns of or refuses is refused or told; what
pngcheck passes is read."""

import io
import json
import os
import random
import subprocess
import tempfile
import unittest
import zlib

import numpy
from daemon_fixture import BIN_DIR, DaemonTest
from direct_client import DirectClient
from pictures import inline_request, make_picture
from PIL import Image


def run_tool(*arguments: str, data: bytes = b"") -> subprocess.CompletedProcess:
    return subprocess.run(
        arguments, input=data, capture_output=True, check=False
    )


def ppm(picture: numpy.ndarray) -> bytes:
    height, width = picture.shape[:2]
    kind = b"P6" if picture.ndim == 3 else b"P5"
    return b"%s %d %d 255\n" % (kind, width, height) + picture.tobytes()


def cjpeg(picture: numpy.ndarray, *arguments: str) -> bytes:
    done = run_tool("cjpeg", *arguments, data=ppm(picture))
    assert done.returncode == 0, done.stderr
    return done.stdout


def djpeg(content: bytes, *arguments: str) -> tuple[numpy.ndarray | None, str]:
    """Pixels (None when it gave up) and its words; empty: nothing odd."""
    done = run_tool("djpeg", "-pnm", *arguments, data=content)
    if done.returncode not in (0, 2):
        return None, done.stderr.decode("latin-1") or "refused"
    with Image.open(io.BytesIO(done.stdout)) as image:
        return numpy.asarray(image), done.stderr.decode("latin-1")


class CodecToolsTest(DaemonTest):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def decode(
        self, content: bytes, *arguments: str
    ) -> tuple[numpy.ndarray | None, dict]:
        """Pixels and the reply; pixels are None when it was refused."""
        path = os.path.join(self.folder, "file")
        result = os.path.join(self.folder, "pixels.npy")
        with open(path, "wb") as file:
            file.write(content)
        done = run_tool(
            os.path.join(BIN_DIR, "preprocctl"),
            "--runtime-dir",
            self.daemon.folder,
            "--json",
            "decode",
            path,
            "-o",
            result,
            *arguments,
        )
        self.assertIn(done.returncode, (0, 4), done.stderr)
        reply = json.loads(done.stdout)
        if done.returncode == 4:
            self.assertIn("reason", reply["error"])
            return None, reply
        return numpy.load(result), reply

    def assert_equals_djpeg(self, content: bytes) -> None:
        expected, words = djpeg(content)
        self.assertEqual(words, "")
        name = "grey" if expected.ndim == 2 else "rgb"
        got, reply = self.decode(content, "--format", name)
        self.assertIsNotNone(got, reply)
        numpy.testing.assert_array_equal(
            got.reshape(expected.shape), expected
        )

    def test_every_flavour_of_cjpeg(self) -> None:
        picture = make_picture(153, 209, seed=5)
        flavours = [
            ["-sample", factors]
            for factors in (
                "1x1",
                "2x1",
                "2x2",
                "1x2",
                "4x1",
                "4x2",
                "2x2,1x2,1x2",
                "1x2,1x2,1x2",
                "2x1,2x1,2x1",
                "2x2,2x1,1x2",
            )
        ] + [
            ["-quality", "1"],
            ["-quality", "5"],
            ["-quality", "100", "-sample", "1x1"],
            ["-rgb"],
            ["-grayscale"],
            ["-optimize"],
            ["-restart", "1"],
            ["-restart", "3B"],
        ]
        processes = [[], ["-progressive"], ["-arithmetic"]]
        for flavour in flavours:
            for process in processes:
                if flavour == ["-optimize"] and process == ["-arithmetic"]:
                    continue
                with self.subTest(flavour=flavour, process=process):
                    self.assert_equals_djpeg(
                        cjpeg(picture, *flavour, *process)
                    )

    def test_grey_of_any_sampling(self) -> None:
        """Luma alone, also where it is not the finest component."""
        for factors in (
            "2x2",
            "4x1",
            "1x1,2x2,2x2",
            "2x2,1x1,4x1",
            "1x2,2x1,2x2",
            "2x1,2x2,1x1",
        ):
            for process in ([], ["-progressive"]):
                for width, height in ((153, 209), (8, 8), (1, 1)):
                    content = cjpeg(
                        make_picture(width, height, seed=6),
                        *("-sample", factors, *process),
                    )
                    expected, _ = djpeg(content, "-grayscale")
                    with self.subTest(factors=factors, process=process):
                        got, reply = self.decode(content, "--format", "grey")
                        self.assertIsNotNone(got, reply)
                        numpy.testing.assert_array_equal(
                            got.reshape(expected.shape), expected
                        )

    def test_scans_of_one_component_each(self) -> None:
        for width, height in ((65, 65), (88, 88), (100, 150)):
            for factors in ("2x2", "2x1", "1x2"):
                for scans in (b"0;1;2;", b"1;2;0;", b"2;0 1;"):
                    path = os.path.join(self.folder, "scans")
                    with open(path, "wb") as file:
                        file.write(scans)
                    whole = cjpeg(
                        make_picture(width, height), "-sample", factors
                    )
                    done = run_tool("jpegtran", "-scans", path, data=whole)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    with self.subTest(scans=scans, factors=factors):
                        self.assert_equals_djpeg(done.stdout)

    def test_replicated_chroma_is_nosmooth(self) -> None:
        for factors in ("2x2", "2x1"):
            content = cjpeg(make_picture(131, 77), "-sample", factors)
            expected, _ = djpeg(content, "-nosmooth")
            got, _ = self.decode(
                content, "--format", "rgb", "--chroma", "replicate"
            )
            numpy.testing.assert_array_equal(got, expected)

    def test_fast_scale_is_djpegs_scale(self) -> None:
        content = cjpeg(make_picture(320, 240), "-sample", "1x1")
        for shrink in (2, 4, 8):
            expected, _ = djpeg(content, "-scale", f"1/{shrink}")
            path = os.path.join(self.folder, "file")
            result = os.path.join(self.folder, "pixels.npy")
            with open(path, "wb") as file:
                file.write(content)
            done = run_tool(
                os.path.join(BIN_DIR, "preprocctl"),
                "--runtime-dir",
                self.daemon.folder,
                "convert",
                path,
                "-o",
                result,
                "--size",
                f"{320 // shrink}x{240 // shrink}",
                "--fit",
                "stretch",
                "--fast-scale",
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            got = numpy.load(result).astype(int)
            self.assertLessEqual(
                numpy.abs(got - expected.astype(int)).max(), 1
            )

    def test_a_camera_with_stray_bytes_floods_no_log(self) -> None:
        content = cjpeg(make_picture(64, 64), "-sample", "2x2", "-restart", "1")
        for marker in range(0xD0, 0xD8):
            content = content.replace(
                bytes([0xFF, marker]), bytes([1, 2, 3, 0xFF, marker])
            )
        request = inline_request(content, 16, 16)
        before = len(self.daemon.log())
        with DirectClient(self.daemon.direct_path) as client:
            for _ in range(1000):
                reply = client.convert(request)
                self.assertEqual(len(reply.inline_bytes), 16 * 16 * 3)
                self.assertTrue(reply.report.warnings)
        lines = self.daemon.log()[before:].count("\n")
        self.assertLess(lines, 20)
        # Whoever looks for the cause finds it in the counters.
        done = run_tool(
            os.path.join(BIN_DIR, "preprocctl"),
            *("--runtime-dir", self.daemon.folder, "--json", "stats"),
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        stats = json.loads(done.stdout)["stats"]
        self.assertGreaterEqual(stats["warnings_total"], 1000)

    def test_damage_is_never_silent(self) -> None:
        picture = make_picture(96, 80, seed=2)
        source = random.Random(20261201)
        files = [
            cjpeg(picture, "-restart", "2B"),
            cjpeg(picture, "-sample", "2x1"),
            cjpeg(picture, "-progressive"),
        ]
        refused = read = 0
        for number in range(120):
            content = bytearray(files[number % len(files)])
            if number % 4 == 0:
                del content[source.randrange(len(content) // 2, len(content)) :]
            else:
                for _ in range(source.randint(1, 3)):
                    content[source.randrange(2, len(content))] = (
                        source.randrange(256)
                    )
            expected, words = djpeg(bytes(content))
            got, reply = self.decode(bytes(content), "--format", "rgb")
            with self.subTest(number=number, words=words):
                if got is None:
                    refused += 1
                    # Only limits and contradictions that djpeg lets pass.
                    if expected is not None and words == "":
                        self.assertEqual(
                            reply["error"]["reason"], "IMAGE_CORRUPT"
                        )
                    continue
                read += 1
                self.assertIsNotNone(expected)
                if expected.ndim == 2:
                    expected = numpy.stack([expected] * 3, axis=-1)
                numpy.testing.assert_array_equal(
                    got.reshape(expected.shape), expected
                )
                if words != "":
                    self.assertTrue(reply["report"]["warnings"])
        self.assertGreater(refused, 30)
        self.assertGreater(read, 10)


def chunk(tag: bytes, body: bytes) -> bytes:
    return (
        len(body).to_bytes(4, "big")
        + tag
        + body
        + zlib.crc32(tag + body).to_bytes(4, "big")
    )


def split(content: bytes) -> list[tuple[bytes, bytes]]:
    chunks = []
    at = 8
    while at < len(content):
        length = int.from_bytes(content[at : at + 4], "big")
        chunks.append(
            (content[at + 4 : at + 8], content[at + 8 : at + 8 + length])
        )
        at += 12 + length
    return chunks


def join(chunks: list[tuple[bytes, bytes]]) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*c) for c in chunks)


class PngToolsTest(CodecToolsTest):
    """The same decoder; only the PNG cases."""

    test_every_flavour_of_cjpeg = None
    test_grey_of_any_sampling = None
    test_scans_of_one_component_each = None
    test_replicated_chroma_is_nosmooth = None
    test_fast_scale_is_djpegs_scale = None
    test_damage_is_never_silent = None
    test_a_camera_with_stray_bytes_floods_no_log = None

    def passes(self, content: bytes) -> bool:
        path = os.path.join(self.folder, "checked.png")
        with open(path, "wb") as file:
            file.write(content)
        return run_tool("pngcheck", "-q", path).returncode == 0

    def assert_read(self, content: bytes) -> None:
        with Image.open(io.BytesIO(content)) as image:
            expected = numpy.asarray(image.convert("RGB"))
        got, reply = self.decode(content, "--format", "rgb")
        self.assertIsNotNone(got, reply)
        numpy.testing.assert_array_equal(
            got.reshape(expected.shape), expected
        )

    def file(self, **options) -> bytes:
        out = io.BytesIO()
        Image.fromarray(make_picture(32, 32)).save(out, "PNG", **options)
        return out.getvalue()

    def test_what_pngcheck_passes_is_read(self) -> None:
        chunks = split(self.file())
        data = b"".join(body for tag, body in chunks if tag == b"IDAT")
        head, tail = chunks[0], chunks[-1]
        text = (b"tEXt", b"Comment\0x")
        layouts = {
            "one IDAT": [head, (b"IDAT", data), tail],
            "many IDATs": [
                head,
                *[(b"IDAT", data[i : i + 100]) for i in range(0, len(data), 100)],
                tail,
            ],
            "text around": [head, text, (b"IDAT", data), text, tail],
            "sRGB": [head, (b"sRGB", b"\0"), (b"IDAT", data), tail],
            "gAMA": [head, (b"gAMA", b"\0\0\xb1\x8f"), (b"IDAT", data), tail],
        }
        for name, layout in layouts.items():
            with self.subTest(name):
                content = join(layout)
                self.assertTrue(self.passes(content))
                self.assert_read(content)

    def test_what_is_wrong_with_the_pixels_is_refused(self) -> None:
        chunks = split(self.file())
        data = b"".join(body for tag, body in chunks if tag == b"IDAT")
        rows = zlib.decompress(data)
        head, tail = chunks[0], chunks[-1]
        damage = {
            "adler": [head, (b"IDAT", data[:-1] + b"\0"), tail],
            "two rows early": [
                head,
                (b"IDAT", zlib.compress(rows[: -2 * 97])),
                tail,
            ],
            "chunk between": [
                head,
                (b"IDAT", data[:50]),
                (b"tEXt", b"a\0b"),
                (b"IDAT", data[50:]),
                tail,
            ],
            "filter 5": [
                head,
                (b"IDAT", zlib.compress(b"\x05" + rows[1:])),
                tail,
            ],
            "no header": [(b"IDAT", data), tail],
        }
        for name, layout in damage.items():
            with self.subTest(name):
                got, reply = self.decode(join(layout), "--format", "rgb")
                self.assertIsNone(got)
                self.assertIn(
                    reply["error"]["reason"],
                    ("IMAGE_CORRUPT", "IMAGE_TRUNCATED", "IMAGE_FORMAT"),
                )

    def test_random_damage_agrees_with_pngcheck(self) -> None:
        source = random.Random(7)
        whole = self.file()
        passed = refused = 0
        for number in range(60):
            content = bytearray(whole)
            content[source.randrange(8, len(content))] ^= 1 << (number % 8)
            got, _ = self.decode(bytes(content), "--format", "rgb")
            if self.passes(bytes(content)):
                passed += 1
                self.assertIsNotNone(got, number)
            refused += got is None
        # Every byte is under a checksum.
        self.assertEqual(passed, 0)
        self.assertGreater(refused, 50)


if __name__ == "__main__":
    unittest.main(verbosity=2)
