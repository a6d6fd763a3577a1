"""MaterializeMasks and DrawMasks against numpy, from the formulas of
engine/masks/mask_plan.h and draw_masks.h: logits are coefficients times
prototypes, scaled ones are bilinear (align_corners false), a pixel is set
when its logit is above 0. Both transports, the shell, and refusals that leave
the destination untouched."""

import json
import os
import subprocess
import tempfile
import unittest

import numpy
from daemon_fixture import BIN_DIR, DaemonTest
from direct_client import ALL_SEALS, READ, DirectClient, GrpcClient
from direct_client import RequestError, make_empty_memfd, make_memfd
from direct_client import read_memfd
from mask_scenes import F32, I8, Scene, paste, rings_to_mask
from mask_scenes import runs_to_mask, set_size, text_to_runs
from PIL import Image
from pictures import encode, layout, make_picture
from preproc.v1 import image_pb2, preproc_pb2

SCENES = 200
RESULT_BYTES = 8 << 20


class MasksTest(DaemonTest):
    def setUp(self) -> None:
        self.client = DirectClient(self.daemon.direct_path)
        self.addCleanup(self.client.close)
        self.grpc = GrpcClient(
            self.daemon.grpc_address, self.client.welcome.token
        )
        self.addCleanup(self.grpc.channel.close)
        self.result = self.client.keep(make_empty_memfd(RESULT_BYTES))
        self.client.register(1, self.result)
        self.next_id = 10

    def place(self, ref, content: bytes) -> None:
        self.next_id += 1
        fd = self.client.keep(make_memfd(content, ALL_SEALS))
        self.client.register(self.next_id, fd, READ)
        ref.buffer.buffer_id = self.next_id
        ref.buffer.generation = 1

    def placed(self, scene: Scene):
        request = scene.request()
        self.place(request.prototypes, scene.prototypes.bytes())
        self.place(request.coefficients, scene.coefficients.bytes())
        request.destination.buffer.buffer_id = 1
        request.destination.buffer.generation = 1
        return request

    def release(self, request) -> None:
        for ref in (request.prototypes, request.coefficients):
            self.client.unregister(ref.buffer.buffer_id)

    def run_masks(self, request) -> tuple:
        reply = self.client.call("materialize_masks", request)
        return reply, read_memfd(self.result, reply.size_bytes or 1)

    def assert_iou(self, got, want) -> None:
        for mask, oracle in zip(got, want):
            union = numpy.count_nonzero(mask | oracle)
            both = numpy.count_nonzero(mask & oracle)
            self.assertGreaterEqual(both, 0.999 * union)

    def test_200_scenes_equal_the_formulas(self) -> None:
        for seed in range(SCENES):
            scene = Scene(seed)
            with self.subTest(seed=seed):
                request = self.placed(scene)
                reply, memory = self.run_masks(request)
                self.assert_iou(paste(reply, memory), scene.masks())
                if seed % 2:
                    scene.letterbox()
                    again = scene.request()
                    request.content.CopyFrom(again.content)
                    request.input.CopyFrom(again.input)
                size = tuple(int(v) for v in scene.random.integers(15, 260, 2))
                set_size(request, *size)
                reply, memory = self.run_masks(request)
                self.assert_iou(paste(reply, memory), scene.masks(size))
                self.release(request)

    def test_continuous_values_are_the_sigmoid(self) -> None:
        scene = Scene(1000)
        sigmoid = 1 / (1 + numpy.exp(-scene.logits))
        request = self.placed(scene)
        request.values = preproc_pb2.MASK_VALUES_CONTINUOUS
        request.extent = preproc_pb2.MASK_EXTENT_UNCROPPED
        _, memory = self.run_masks(request)
        got = numpy.frombuffer(memory, numpy.uint8).reshape(sigmoid.shape)
        self.assertLess(numpy.abs(got - sigmoid * 255).max(), 0.51)
        request.dtype = F32
        _, memory = self.run_masks(request)
        got = numpy.frombuffer(memory, numpy.float32).reshape(sigmoid.shape)
        self.assertLess(numpy.abs(got - sigmoid).max(), 1e-4)

    def test_forms_give_the_masks_back(self) -> None:
        for seed in range(2000, 2020):
            scene = Scene(seed)
            request = self.placed(scene)
            set_size(request, 97, 83)
            reply, memory = self.run_masks(request)
            dense = paste(reply, memory)
            request.ClearField("destination")
            for form in ("RLE", "RLE_TEXT", "POLYGONS"):
                with self.subTest(seed=seed, form=form):
                    request.output = preproc_pb2.MaskOutput.Value(
                        f"MASK_OUTPUT_{form}"
                    )
                    reply, _ = self.run_masks(request)
                    for i, mask in enumerate(reply.masks):
                        if form == "POLYGONS":
                            got = rings_to_mask(mask, 97, 83)
                        else:
                            counts = mask.rle_counts or text_to_runs(
                                mask.rle_text
                            )
                            got = runs_to_mask(counts, 97, 83)
                        self.assertTrue(numpy.array_equal(got, dense[i]))
            self.release(request)

    def test_semantic_masks_are_the_argmax(self) -> None:
        scene = Scene(3001)
        planes = scene.prototypes.values
        if not scene.chw:
            planes = planes.transpose(2, 0, 1)
        request = self.placed(scene)
        request.semantic = True
        request.ClearField("coefficients")
        request.ClearField("boxes")
        reply, memory = self.run_masks(request)
        self.assertEqual(len(reply.masks), 1)
        got = numpy.frombuffer(memory, numpy.uint8)
        self.assertTrue(
            numpy.array_equal(
                got.reshape(planes.shape[1:]), planes.argmax(axis=0)
            )
        )

    def test_transports_agree(self) -> None:
        scene = Scene(4000)
        request = self.placed(scene)
        set_size(request, 120, 90)
        direct, memory = self.run_masks(request)
        inline = preproc_pb2.MaterializeMasksRequest()
        inline.CopyFrom(request)
        inline.prototypes.inline_bytes = scene.prototypes.bytes()
        inline.coefficients.inline_bytes = scene.coefficients.bytes()
        inline.destination.inline = preproc_pb2.INLINE_ENCODING_RAW
        unary = self.grpc.call(
            "preproc.v1.Preproc/MaterializeMasks",
            inline,
            preproc_pb2.MaterializeMasksReply,
        )
        self.assertEqual(unary.inline_bytes, memory)
        self.assertEqual(unary.masks, direct.masks)
        self.assertEqual(direct.report.bytes_copied, 0)
        self.assertEqual(direct.report.backend, "cpu")

    def test_the_palette_is_the_sessions_on_both_transports(self) -> None:
        scene = Scene(4100)
        draw = preproc_pb2.DrawMasksRequest()
        draw.masks.CopyFrom(self.placed(scene))
        draw.masks.ClearField("destination")
        draw.masks.ClearField("size")
        draw.destination.inline = preproc_pb2.INLINE_ENCODING_RAW
        layout = draw.destination.layout
        layout.format = image_pb2.PIXEL_FORMAT_RGB
        layout.width, layout.height = 90, 70
        palette = preproc_pb2.SetPaletteRequest()
        palette.colors.add(r=10, g=20, b=30, a=255)
        reply = self.client.call("set_palette", palette)
        self.assertEqual(len(reply.colors), 1)
        drawn = self.client.call("draw_masks", draw)
        pixels = numpy.frombuffer(drawn.inline_bytes, numpy.uint8)
        self.assertEqual(
            {tuple(p) for p in pixels.reshape(-1, 3)},
            {(0, 0, 0), (10, 20, 30)},
        )
        # The same session by gRPC, then back to the default.
        again = self.grpc.call(
            "preproc.v1.Preproc/DrawMasks", draw, preproc_pb2.DrawMasksReply
        )
        self.assertEqual(again.inline_bytes, drawn.inline_bytes)
        reply = self.grpc.call(
            "preproc.v1.Preproc/SetPalette",
            preproc_pb2.SetPaletteRequest(),
            preproc_pb2.SetPaletteReply,
        )
        self.assertEqual(len(reply.colors), 20)
        drawn = self.client.call("draw_masks", draw)
        self.assertNotEqual(again.inline_bytes, drawn.inline_bytes)

    def test_refusals_leave_the_destination_untouched(self) -> None:
        scene = Scene(5000)
        good = self.placed(scene)
        set_size(good, 120, 90)
        pattern = os.urandom(RESULT_BYTES)
        os.pwrite(self.result, pattern, 0)

        def changed(change):
            request = preproc_pb2.MaterializeMasksRequest()
            request.CopyFrom(good)
            change(request)
            return request

        def set_box(name, value):
            return lambda r: setattr(r.boxes[0], name, value)

        def shape(ref, value):
            def change(request):
                tensor = getattr(request, ref)
                del tensor.shape[:]
                tensor.shape.extend(value)

            return change

        def small(request):
            request.destination.buffer.offset_bytes = RESULT_BYTES - 8

        cases = {
            "boxes[0].x0": [
                set_box("x0", float("nan")),
                set_box("x0", -0.01),
                set_box("x0", float("inf")),
            ],
            "boxes[0].y1": [set_box("y1", 1.01)],
            "boxes": [lambda r: r.boxes.add(), lambda r: r.boxes.pop()],
            "prototypes.shape": [
                shape("prototypes", [4, 4]),
                shape("prototypes", [1, 4, 4, 4]),
                shape("prototypes", [0, 4, 4]),
            ],
            "prototypes.shape[0]": [shape("prototypes", [-1, 4, 4])],
            "prototypes.buffer": [shape("prototypes", [900, 900, 900])],
            "coefficients.shape": [
                shape("coefficients", [4]),
                shape("coefficients", [len(scene.boxes), 999]),
            ],
            "coefficients": [
                lambda r: r.coefficients.ClearField("buffer"),
            ],
            "destination.buffer": [small],
            "size": [
                lambda r: set_size(r, 0, 7),
                lambda r: set_size(r, 20000, 7),
            ],
            "content": [lambda r: r.input.CopyFrom(r.size)],
            "values": [lambda r: setattr(r, "values", 9)],
            "output": [lambda r: setattr(r, "output", 9)],
            "extent": [lambda r: setattr(r, "extent", 9)],
            "dtype": [lambda r: setattr(r, "dtype", I8)],
            "options.backends": [lambda r: r.options.backends.append("tpu")],
        }
        for field, changes in cases.items():
            for i, change in enumerate(changes):
                with self.subTest(field=field, change=i):
                    with self.assertRaises(RequestError) as caught:
                        self.client.call("materialize_masks", changed(change))
                    # K * H * W of a wrong shape may be refused as a shape or
                    # as memory that is too small.
                    self.assertEqual(caught.exception.code, "INVALID_ARGUMENT")
                    if field != "prototypes.buffer":
                        self.assertEqual(caught.exception.field, field)
        self.assertEqual(read_memfd(self.result, RESULT_BYTES), pattern)

    # Drawing.

    def draw_request(self, scene: Scene, background: bytes, size):
        request = preproc_pb2.DrawMasksRequest()
        if scene is not None:
            request.masks.CopyFrom(self.placed(scene))
            request.masks.ClearField("destination")
        picture = layout(*size, image_pb2.PIXEL_FORMAT_RGBA)
        if background:
            self.place(request.background, background)
            request.background.layout.CopyFrom(picture)
        request.destination.buffer.buffer_id = 1
        request.destination.buffer.generation = 1
        request.destination.layout.CopyFrom(picture)
        return request

    def drawn(self, request, size) -> numpy.ndarray:
        self.client.call("draw_masks", request)
        width, height = size
        return numpy.frombuffer(
            read_memfd(self.result, width * height * 4), numpy.uint8
        ).reshape(height, width, 4)

    def test_drawings_equal_the_formula(self) -> None:
        size = (133, 77)
        random = numpy.random.default_rng(5)
        background = random.integers(0, 256, (77, 133, 4)).astype(numpy.uint8)
        for seed in range(6000, 6020):
            scene = Scene(seed)
            if seed % 2:
                scene.letterbox()
            for below in (background, None):
                with self.subTest(seed=seed, background=below is not None):
                    request = self.draw_request(
                        scene, b"" if below is None else below.tobytes(), size
                    )
                    request.color_mode = preproc_pb2.COLOR_MODE_TRACK
                    request.opacity = 0.5
                    colors = random.integers(0, 256, (7, 4))
                    for r, g, b, a in colors:
                        request.palette.add(r=r, g=g, b=b, a=a)
                    got = self.drawn(request, size).astype(int)
                    want = numpy.zeros((77, 133, 4), int)
                    if below is not None:
                        want += below
                    for i, mask in enumerate(scene.masks(size)):
                        r, g, b, a = colors[(40 + i) % 7]
                        weight = int(a * 0.5 * 256 / 255 + 0.5)
                        color = numpy.array([r, g, b, 255])
                        mixed = (
                            color * weight + want * (256 - weight) + 128
                        ) >> 8
                        want = numpy.where(mask[..., None] > 0, mixed, want)
                    wrong = numpy.count_nonzero(numpy.any(got != want, axis=2))
                    self.assertLessEqual(wrong, 0.001 * size[0] * size[1])

    def test_the_destination_is_always_written(self) -> None:
        size = (50, 40)
        picture = make_picture(50, 40)
        os.pwrite(self.result, b"\xa5" * (50 * 40 * 4), 0)
        kept = preproc_pb2.DrawMasksRequest(keep_destination=True)
        empty = self.draw_request(None, b"", size)
        kept.destination.CopyFrom(empty.destination)
        self.assertTrue((self.drawn(kept, size) == 0xA5).all())
        self.assertFalse(self.drawn(empty, size).any())
        over = preproc_pb2.DrawMasksRequest()
        over.destination.CopyFrom(empty.destination)
        self.place(over.background, encode(picture, "PNG"))
        got = self.drawn(over, size)
        self.assertTrue((got[..., :3] == picture).all())
        self.assertTrue((got[..., 3] == 255).all())

    def test_masks_made_before_are_drawn(self) -> None:
        scene = Scene(7000)
        size = (96, 64)
        made = self.placed(scene)
        set_size(made, *size)
        reply, memory = self.run_masks(made)
        request = self.draw_request(None, b"", size)
        self.place(request.dense.pixels, memory)
        request.dense.masks.extend(reply.masks)
        request.dense.size.CopyFrom(reply.size)
        request.dense.objects.extend(made.boxes)
        got = self.drawn(request, size)
        direct = self.draw_request(scene, b"", size)
        self.assertTrue(numpy.array_equal(got, self.drawn(direct, size)))
        request.dense.masks[0].offset_bytes = len(memory)
        with self.assertRaises(RequestError) as caught:
            self.client.call("draw_masks", request)
        self.assertEqual(caught.exception.reason, "BUFFER_TOO_SMALL")
        request.dense.masks[0].bounds.x = 96
        with self.assertRaises(RequestError) as caught:
            self.client.call("draw_masks", request)
        self.assertEqual(caught.exception.field, "dense.masks[0].bounds")

    def test_drawings_are_refused_before_anything_is_written(self) -> None:
        size = (50, 40)
        scene = Scene(8000)
        pattern = os.urandom(50 * 40 * 4)
        os.pwrite(self.result, pattern, 0)

        def grey(request):
            request.destination.layout.format = image_pb2.PIXEL_FORMAT_GREY

        cases = {
            "opacity": lambda r: setattr(r, "opacity", 1.5),
            "color_mode": lambda r: setattr(r, "color_mode", 9),
            "palette[0]": lambda r: r.palette.add(r=256),
            "masks.boxes[0].x0": lambda r: setattr(
                r.masks.boxes[0], "x0", float("nan")
            ),
            "masks.boxes[0].label": lambda r: setattr(
                r.masks.boxes[0], "label", -1
            ),
            "masks": lambda r: set_size(r.masks, 50, 40),
            "destination.layout.format": grey,
            "dense": lambda r: r.dense.SetInParent(),
            "keep_destination": lambda r: (
                setattr(r, "keep_destination", True),
                r.background.SetInParent(),
            ),
        }
        for field, change in cases.items():
            with self.subTest(field=field):
                request = self.draw_request(scene, b"", size)
                change(request)
                with self.assertRaises(RequestError) as caught:
                    self.client.call("draw_masks", request)
                self.assertEqual(caught.exception.code, "INVALID_ARGUMENT")
                self.assertEqual(caught.exception.field, field)
        self.assertEqual(read_memfd(self.result, len(pattern)), pattern)

    # The shell.

    def test_preprocctl_mask(self) -> None:
        # One scale each: the shell has no lists of them.
        scene = next(
            scene
            for scene in map(Scene, range(9000, 9100))
            if len(scene.prototypes.scales) == 1
            and len(scene.coefficients.scales) <= 1
        )
        with tempfile.TemporaryDirectory() as folder:

            def path(name: str) -> str:
                return os.path.join(folder, name)

            numpy.save(path("p.npy"), scene.prototypes.stored)
            numpy.save(path("c.npy"), scene.coefficients.stored)
            boxes = numpy.zeros((len(scene.boxes), 7), numpy.float32)
            boxes[:, :4] = scene.boxes
            numpy.save(path("b.npy"), boxes)
            arguments = [
                os.path.join(BIN_DIR, "preprocctl"),
                "--runtime-dir",
                self.daemon.folder,
                "--json",
                "mask",
                path("p.npy"),
                "--coefficients",
                path("c.npy"),
                "--boxes",
                path("b.npy"),
            ]
            if scene.chw:
                arguments.append("--chw")
            for option, tensor in (
                ("--prototype-quant", scene.prototypes),
                ("--coefficient-quant", scene.coefficients),
            ):
                if tensor.scales:
                    arguments += [
                        option,
                        f"{tensor.scales[0]},{tensor.zero_points[0]}",
                    ]

            def run(*more: str) -> dict:
                done = subprocess.run(
                    [*arguments, *more],
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=120,
                )
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                return json.loads(done.stdout)

            want = scene.masks((90, 70))
            run("-o", path("m.npy"), "--size", "90x70")
            self.assert_iou(numpy.load(path("m.npy")), want)
            run("-o", path("m.json"), "--size", "90x70")
            with open(path("m.json"), encoding="utf-8") as file:
                masks = json.load(file)
            got = [
                runs_to_mask(text_to_runs(m["segmentation"]["counts"]), 90, 70)
                for m in masks
            ]
            self.assert_iou(got, want)
            picture = make_picture(90, 70)
            with open(path("photo.png"), "wb") as file:
                file.write(encode(picture, "PNG"))
            run("-o", path("drawn.png"), "--draw-on", path("photo.png"))
            drawn = numpy.asarray(Image.open(path("drawn.png")))
            anywhere = want.any(axis=0)
            changed = (drawn != picture).any(axis=2)
            self.assertFalse((changed & ~anywhere).sum() > 6)
            self.assertGreater(changed.sum(), 0.5 * anywhere.sum())

    def test_results_above_a_frame_reach_preprocctl(self) -> None:
        """Noise: run lengths far above what one packet carries."""
        random = numpy.random.default_rng(3)
        with tempfile.TemporaryDirectory() as folder:

            def save(name: str, array) -> str:
                path = os.path.join(folder, name)
                numpy.save(path, array.astype(numpy.float32))
                return path

            boxes = numpy.tile([0.0, 0.0, 1.0, 1.0], (12, 1))
            output = os.path.join(folder, "m.json")
            done = subprocess.run(
                [
                    os.path.join(BIN_DIR, "preprocctl"),
                    "--runtime-dir",
                    self.daemon.folder,
                    "mask",
                    save("p.npy", random.normal(size=(160, 160, 4))),
                    "--coefficients",
                    save("c.npy", random.normal(size=(12, 4))),
                    "--boxes",
                    save("b.npy", boxes),
                    "-o",
                    output,
                ],
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(output, encoding="utf-8") as file:
                masks = json.load(file)
            self.assertEqual(len(masks), 12)
            self.assertGreater(os.path.getsize(output), 1 << 16)
            self.assertEqual(masks[0]["segmentation"]["size"], [160, 160])


if __name__ == "__main__":
    unittest.main()
