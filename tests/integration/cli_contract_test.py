"""preprocctl's contract with scripts: exit codes, one JSON object, files."""

import json
import os
import subprocess
import tempfile
import unittest

import numpy
from daemon_fixture import BIN_DIR, DaemonTest, DescriptorLimit
from direct_client import DirectClient
from PIL import Image
from pictures import encode, make_picture

OK, OTHER, USAGE, NO_DAEMON, REFUSED, EXHAUSTED = 0, 1, 2, 3, 4, 5


class CliContractTest(DaemonTest):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.picture = make_picture(120, 90)
        self.photo = self.write("photo.jpg", encode(self.picture, "JPEG"))

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def write(self, name: str, content: bytes) -> str:
        with open(self.path(name), "wb") as file:
            file.write(content)
        return self.path(name)

    def run_ctl(self, *arguments: str, runtime_dir: str | None = None):
        return subprocess.run(
            [
                os.path.join(BIN_DIR, "preprocctl"),
                "--runtime-dir",
                runtime_dir or self.daemon.folder,
                *arguments,
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def run_json(self, *arguments: str, **options) -> tuple[int, dict]:
        done = self.run_ctl("--json", *arguments, **options)
        lines = done.stdout.strip().splitlines()
        self.assertEqual(len(lines), 1, done.stdout + done.stderr)
        return done.returncode, json.loads(lines[0])

    def assert_error(
        self, exit_code: int, code: str, reason: str | None, *arguments: str
    ) -> dict:
        status, answer = self.run_json(*arguments)
        self.assertEqual(status, exit_code, answer)
        self.assertEqual(set(answer), {"error"})
        error = answer["error"]
        self.assertEqual(error["code"], code)
        if reason is not None:
            self.assertEqual(error["reason"], reason)
        self.assertTrue(error["message"])
        # The same without --json: nothing on stdout that looks like a result.
        done = self.run_ctl(*arguments)
        self.assertEqual(done.returncode, exit_code)
        self.assertTrue(done.stderr.strip())
        return error

    def convert_arguments(self, source: str, *more: str) -> tuple[str, ...]:
        return ("convert", source, "-o", self.path("o.npy"), *more)

    # Exit codes.

    def test_usage_errors_exit_2(self) -> None:
        for arguments in (
            (),
            ("no-such-command",),
            ("convert", self.photo),
            self.convert_arguments(self.photo, "--size", "640"),
            self.convert_arguments(self.photo, "--size", "ax9"),
            self.convert_arguments(self.photo, "--fit", "sideways"),
            self.convert_arguments(self.photo, "--no-such-option"),
            self.convert_arguments(self.photo, "--dtype", "u7"),
            ("convert", self.photo, "-o", self.path("o.unknown")),
        ):
            with self.subTest(arguments=arguments):
                self.assertEqual(self.run_ctl(*arguments).returncode, USAGE)
                status, answer = self.run_json(*arguments)
                self.assertEqual(status, USAGE)
                self.assertIn("error", answer)

    def test_no_daemon_exits_3(self) -> None:
        for arguments in (
            ("status",),
            ("capabilities",),
            ("info", self.photo),
            self.convert_arguments(self.photo),
        ):
            with self.subTest(arguments=arguments):
                status, answer = self.run_json(
                    *arguments, runtime_dir=self.folder
                )
                self.assertEqual(status, NO_DAEMON, answer)
                self.assertEqual(answer["error"]["code"], "UNAVAILABLE")

    def test_refusals_exit_4_with_their_reason(self) -> None:
        with open(self.photo, "rb") as file:
            content = file.read()
        half = self.write("half.jpg", content[: len(content) // 2])
        text = self.write("text.jpg", b"not a picture\n" * 10)
        empty = self.write("empty.jpg", b"")
        for source, reason in (
            (half, "IMAGE_TRUNCATED"),
            (text, "IMAGE_FORMAT"),
            (empty, "IMAGE_FORMAT"),
        ):
            with self.subTest(source=source):
                self.assert_error(
                    REFUSED,
                    "INVALID_ARGUMENT",
                    reason,
                    *self.convert_arguments(source, "--size", "64x64"),
                )
        for source, reason in ((text, "IMAGE_FORMAT"), (empty, "IMAGE_FORMAT")):
            self.assert_error(
                REFUSED, "INVALID_ARGUMENT", reason, "info", source
            )
        for arguments, reason in (
            (("--crop", "0,0,121,90"), "GEOMETRY_INVALID"),
            (("--size", "0x64"), "GEOMETRY_INVALID"),
            (("--size", "99999x64"), "TOO_LARGE"),
        ):
            self.assert_error(
                REFUSED,
                "INVALID_ARGUMENT",
                reason,
                *self.convert_arguments(self.photo, *arguments),
            )

    def test_exhaustion_exits_5(self) -> None:
        sessions = []
        try:
            for _ in range(64):
                sessions.append(DirectClient(self.daemon.direct_path))
            self.assert_error(
                EXHAUSTED,
                "RESOURCE_EXHAUSTED",
                "QUOTA",
                *self.convert_arguments(self.photo),
            )
        finally:
            for session in sessions:
                session.close()

    def test_commands_that_are_not_built_say_so(self) -> None:
        status, answer = self.run_json("batch", "whatever")
        if "error" in answer:
            self.assertEqual(status, OTHER)
            self.assertEqual(answer["error"]["code"], "UNIMPLEMENTED")
            self.assertEqual(answer["error"]["reason"], "NOT_BUILT")

    def test_missing_input_file_is_no_success(self) -> None:
        status, answer = self.run_json("info", self.path("gone.jpg"))
        self.assertNotIn(status, (OK, NO_DAEMON), answer)
        self.assertIn("gone.jpg", answer["error"]["message"])

    def test_a_refusal_leaves_no_output_file(self) -> None:
        text = self.write("text.jpg", b"not a picture")
        self.run_ctl(*self.convert_arguments(text))
        self.assertFalse(os.path.exists(self.path("o.npy")))

    # Results.

    def test_info(self) -> None:
        status, answer = self.run_json("info", self.photo)
        self.assertEqual(status, OK)
        text = json.dumps(answer)
        for word in ("jpeg", "120", "90", "4:2:0"):
            self.assertIn(word, text)

    def test_convert_writes_every_kind_of_file(self) -> None:
        status, answer = self.run_json(
            *self.convert_arguments(self.photo, "--size", "64x48")
        )
        self.assertEqual(status, OK)
        self.assertEqual(answer["shape"], [48, 64, 3])
        self.assertEqual(answer["backend"], "cpu")
        self.assertEqual(answer["bytes_copied"], 0)
        array = numpy.load(self.path("o.npy"))
        self.assertEqual((array.shape, array.dtype), ((48, 64, 3), "uint8"))
        for name in ("o.png", "o.ppm", "o.raw", "o.jpg"):
            done = self.run_ctl(
                "convert", self.photo, "-o", self.path(name), "--size", "64x48"
            )
            self.assertEqual(done.returncode, OK, done.stderr)
        for name in ("o.png", "o.ppm"):
            with Image.open(self.path(name)) as image:
                numpy.testing.assert_array_equal(numpy.asarray(image), array)
        with open(self.path("o.raw"), "rb") as file:
            self.assertEqual(file.read(), array.tobytes())
        with Image.open(self.path("o.jpg")) as image:
            near = numpy.asarray(image.convert("RGB")).astype(int)
        self.assertLess(numpy.abs(near - array.astype(int)).mean(), 8)

    def test_tensor_shapes_and_types(self) -> None:
        for dtype, expected in (("u8", "u1"), ("i8", "i1"), ("f32", "<f4")):
            for tensor_layout, shape in (
                ("hwc", (48, 64, 3)),
                ("chw", (3, 48, 64)),
            ):
                with self.subTest(dtype=dtype, layout=tensor_layout):
                    done = self.run_ctl(
                        *self.convert_arguments(
                            self.photo,
                            *("--size", "64x48", "--dtype", dtype),
                            *("--layout", tensor_layout),
                        )
                    )
                    self.assertEqual(done.returncode, OK, done.stderr)
                    array = numpy.load(self.path("o.npy"))
                    self.assertEqual(array.shape, shape)
                    self.assertEqual(array.dtype, numpy.dtype(expected))

    def test_mean_and_std_are_torchvisions(self) -> None:
        plain = self.path("plain.npy")
        self.run_ctl("convert", self.photo, "-o", plain, "--size", "64x48")
        mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
        done = self.run_ctl(
            *self.convert_arguments(
                self.photo,
                *("--size", "64x48", "--dtype", "f32", "--layout", "chw"),
                *("--mean", ",".join(map(str, mean))),
                *("--std", ",".join(map(str, std))),
            )
        )
        self.assertEqual(done.returncode, OK, done.stderr)
        expected = (numpy.load(plain) / 255.0 - mean) / std
        numpy.testing.assert_allclose(
            numpy.load(self.path("o.npy")),
            expected.transpose(2, 0, 1),
            atol=1e-5,
        )

    def test_decode_and_encode_round_trip(self) -> None:
        png = self.write("p.png", encode(self.picture, "PNG"))
        ppm = self.path("p.ppm")
        self.assertEqual(self.run_ctl("decode", png, "-o", ppm).returncode, OK)
        with Image.open(ppm) as image:
            numpy.testing.assert_array_equal(
                numpy.asarray(image), self.picture
            )
        raw = self.write("p.raw", self.picture.tobytes())
        again = self.path("again.png")
        for source in ((png,), (raw, "--raw", "rgb:120x90")):
            done = self.run_ctl("encode", *source, "-o", again)
            self.assertEqual(done.returncode, OK, done.stderr)
            with Image.open(again) as image:
                numpy.testing.assert_array_equal(
                    numpy.asarray(image), self.picture
                )
            os.unlink(again)

    def test_explain_touches_no_output(self) -> None:
        status, answer = self.run_json(
            "explain", self.photo, "--size", "64x64", "--fit", "letterbox"
        )
        self.assertEqual(status, OK)
        self.assertEqual(answer["backend"], "cpu")
        self.assertTrue(answer["ranking"])
        where = answer["placement"]["destination"]
        self.assertEqual(
            (where["x"], where["y"], where["width"], where["height"]),
            (0, 8, 64, 48),
        )

    def test_operator_commands(self) -> None:
        status, answer = self.run_json("status")
        self.assertEqual((status, answer["pid"]), (OK, self.daemon.pid))
        self.assertEqual(answer["state"], "serving")
        status, answer = self.run_json("capabilities")
        self.assertEqual(status, OK)
        self.assertIn("cpu", [b["name"] for b in answer["backends"]])
        with DirectClient(self.daemon.direct_path, name="visible"):
            status, answer = self.run_json("sessions")
        self.assertEqual(status, OK)
        self.assertIn(
            "visible", [s["client_name"] for s in answer["sessions"]]
        )
        status, answer = self.run_json("stats")
        self.assertEqual(status, OK)
        self.assertTrue(answer)

    def test_tile_plan(self) -> None:
        status, answer = self.run_json(
            *("tile", self.photo, "--plan-only", "--tile", "64x64"),
            *("--overlap", "0.2"),
        )
        # 120x90: three columns and two rows, by the EvenDist formula.
        self.assertEqual(status, OK)
        self.assertEqual(
            [(t["x"], t["y"], t["width"], t["height"]) for t in answer["tiles"]],
            [(x, y, 64, 64) for y in (0, 26) for x in (0, 28, 56)],
        )

    def test_grpc_address_without_a_runtime_dir(self) -> None:
        done = subprocess.run(
            [
                os.path.join(BIN_DIR, "preprocctl"),
                *("--address", self.daemon.grpc_address, "--json"),
                *self.convert_arguments(self.photo, "--size", "64x48"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, OK, done.stdout + done.stderr)
        over_grpc = numpy.load(self.path("o.npy"))
        self.run_ctl(*self.convert_arguments(self.photo, "--size", "64x48"))
        numpy.testing.assert_array_equal(
            over_grpc, numpy.load(self.path("o.npy"))
        )

    def test_private_daemon_serves_one_call_and_leaves_nothing(self) -> None:
        environment = {**os.environ, "TMPDIR": self.folder}
        environment.pop("PREPROCD_RUNTIME_DIR", None)
        done = subprocess.run(
            [
                os.path.join(BIN_DIR, "preprocctl"),
                "--private",
                *self.convert_arguments(self.photo, "--size", "64x48"),
            ],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        self.assertEqual(done.returncode, OK, done.stdout + done.stderr)
        self.assertEqual(
            sorted(os.listdir(self.folder)), ["o.npy", "photo.jpg"]
        )

    def test_daemon_without_descriptors_is_not_taken_for_absent(self) -> None:
        with DescriptorLimit(self.daemon):
            done = self.run_ctl(
                "--timeout", "1", *self.convert_arguments(self.photo)
            )
        self.assertNotEqual(done.returncode, OK)


if __name__ == "__main__":
    unittest.main()
