"""Tiles, boxes and masks of large frames against oracles written from the
formulas with numpy, over both transports and preprocctl."""

import json
import os
import subprocess
import tempfile
import unittest

import numpy
from daemon_fixture import BIN_DIR, DaemonTest
from direct_client import READ, DirectClient, GrpcClient, RequestError
from direct_client import make_empty_memfd, make_memfd, read_memfd
from PIL import Image
from pictures import encode, layout, make_picture
from preproc.v1 import image_pb2, preproc_pb2

# Worked examples of the grid formula (engine/image/tile_grid.h), single
# precision included, and frames that are smaller or barely larger than a tile.
GRIDS = (
    (1920, 640, 0.1, [0, 427, 853, 1280]),
    (3840, 640, 0.2, [0, 457, 914, 1371, 1829, 2286, 2743, 3200]),
    (1664, 640, 0.2, [0, 341, 683, 1024]),
    (641, 640, 0.2, [0, 1]),
    (640, 640, 0.2, [0]),
    (400, 640, 0.2, [0]),
    (1920, 640, 0.5, [0, 320, 640, 960, 1280]),
    (4000, 1024, 0.25, [0, 744, 1488, 2232, 2976]),
    (1000, 300, 1 / 3, [0, 175, 350, 525, 700]),
    (922, 512, 0.199, [0, 410]),
    (513, 512, 0.2, [0, 1]),
    (1, 512, 0.2, [0]),
)


def axis_origins(frame: int, tile: int, overlap: float) -> list[int]:
    """EvenDist, one axis: see engine/image/tile_grid.h."""
    if frame <= tile:
        return [0]
    last = frame - tile
    kept = 1.0 - float(numpy.float32(overlap))
    step = max(1, int(numpy.floor(kept * tile)))
    count = -(-last // step)
    single = numpy.float32
    return [
        int(numpy.floor(single(i) * single(last) / single(count) + single(0.5)))
        for i in range(count + 1)
    ]


def grid_rects(frame, tile, overlap) -> list[tuple[int, int, int, int]]:
    width, height = min(frame[0], tile[0]), min(frame[1], tile[1])
    return [
        (x, y, width, height)
        for y in axis_origins(frame[1], tile[1], overlap)
        for x in axis_origins(frame[0], tile[0], overlap)
    ]


def merge_oracle(boxes, metric, threshold, agnostic):
    """boxes: float32 [N, 6] x0 y0 x1 y1 score label; the definition, every
    pair. Returns merged boxes [M, 6] and merged_into [N]."""
    order = numpy.argsort(-boxes[:, 4], kind="stable")
    sides = boxes.astype(numpy.float64)
    area = (sides[:, 2] - sides[:, 0]) * (sides[:, 3] - sides[:, 1])
    free = numpy.ones(len(boxes), bool)
    into = numpy.full(len(boxes), -1)
    merged = []
    for i in order:
        if not free[i]:
            continue
        low = numpy.maximum(sides[i, :2], sides[:, :2])
        high = numpy.minimum(sides[i, 2:4], sides[:, 2:4])
        shared = numpy.prod(numpy.maximum(high - low, 0), axis=1)
        whole = (
            numpy.minimum(area[i], area)
            if metric == preproc_pb2.MATCH_METRIC_IOS
            else area[i] + area - shared
        )
        match = (shared / numpy.maximum(whole, 1e-9)).astype(
            numpy.float32
        ) >= numpy.float32(threshold)
        if not agnostic:
            match &= boxes[:, 5] == boxes[i, 5]
        match[i] = True
        match &= free
        group = boxes[match]
        merged.append(
            [
                *group[:, :2].min(axis=0),
                *group[:, 2:4].max(axis=0),
                boxes[i, 4],
                boxes[i, 5],
            ]
        )
        into[match] = len(merged) - 1
        free &= ~match
    return numpy.array(merged, numpy.float32), into


def coco_counts(mask: numpy.ndarray) -> list[int]:
    """Run lengths, column after column, beginning with zeros."""
    flat = mask.T.ravel() != 0
    changes = numpy.flatnonzero(numpy.diff(flat)) + 1
    edges = numpy.concatenate([[0], changes, [len(flat)]])
    counts = numpy.diff(edges).tolist()
    return [0, *counts] if flat[0] else counts


def coco_mask(counts, height: int, width: int) -> numpy.ndarray:
    values = numpy.arange(len(counts)) % 2
    return numpy.repeat(values, counts).reshape(width, height).T


def tile_grid(tile, overlap=0.2, fit=0) -> preproc_pb2.TileGrid:
    return preproc_pb2.TileGrid(
        tile=image_pb2.Size(width=tile[0], height=tile[1]),
        overlap=overlap,
        fit=fit,
    )


def random_boxes(count: int, seed: int, span=600.0, side=40.0):
    random = numpy.random.default_rng(seed)
    low = random.uniform(0, span, (count, 2))
    size = random.exponential(side, (count, 2))
    score = random.integers(0, 30, (count, 1)) / 30
    label = random.integers(0, 3, (count, 1))
    return numpy.hstack([low, low + size, score, label]).astype(numpy.float32)


def add_boxes(message, boxes) -> None:
    for x0, y0, x1, y1, score, label in boxes.tolist():
        message.boxes.add(
            x0=x0, y0=y0, x1=x1, y1=y1, score=score, label=int(label)
        )


class TilingTest(DaemonTest):
    def setUp(self) -> None:
        self.client = DirectClient(self.daemon.direct_path)
        self.addCleanup(self.client.close)
        self.grpc = GrpcClient(
            self.daemon.grpc_address, self.client.welcome.token
        )
        self.addCleanup(self.grpc.channel.close)

    def over_grpc(self, method, request, reply_type):
        return self.grpc.call(
            f"preproc.v1.Preproc/{method}", request, reply_type
        )

    def test_grids_follow_the_formula(self) -> None:
        for frame, tile, overlap, origins in GRIDS:
            with self.subTest(frame=frame, tile=tile, overlap=overlap):
                self.assertEqual(axis_origins(frame, tile, overlap), origins)
        random = numpy.random.default_rng(5)
        for _ in range(200):
            frame = random.integers(1, 5000, 2).tolist()
            tile = random.integers(100, 1200, 2).tolist()
            overlap = float(numpy.float32(random.uniform(0, 0.9)))
            if len(grid_rects(frame, tile, overlap)) > 4096:
                continue
            request = preproc_pb2.PlanTilesRequest(
                frame=image_pb2.Size(width=frame[0], height=frame[1]),
                grid=tile_grid(tile, overlap),
            )
            # Long lists do not fit a direct frame.
            if len(grid_rects(frame, tile, overlap)) > 1000:
                reply = self.over_grpc(
                    "PlanTiles", request, preproc_pb2.PlanTilesReply
                )
            else:
                reply = self.client.call("plan_tiles", request)
            got = [
                (t.crop.x, t.crop.y, t.crop.width, t.crop.height)
                for t in reply.tiles
            ]
            self.assertEqual(
                got, grid_rects(frame, tile, overlap), (frame, tile, overlap)
            )

    def test_a_large_list_of_tiles(self) -> None:
        """Bug case A-03."""
        rects = grid_rects((14300, 10400), (1100, 1100), 0.3)
        self.assertEqual(len(rects), 266)
        self.assertEqual(rects[-1][:2], (13200, 9300))

    def frame(self, width=331, height=217):
        picture = make_picture(width, height, seed=4)
        fd = self.client.keep(make_memfd(picture.tobytes()))
        self.client.register(1, fd, READ, layout=layout(width, height))
        request = preproc_pb2.TileRequest(grid=tile_grid((96, 80)))
        request.source.buffer.buffer_id = 1
        request.source.buffer.generation = 1
        return picture, request

    def test_tiles_are_crops_on_both_transports(self) -> None:
        picture, request = self.frame()
        rects = grid_rects((331, 217), (96, 80), 0.2)
        size = len(rects) * 96 * 80 * 3
        replies = []
        for buffer_id, call in (
            (10, lambda r: self.client.call("tile", r)),
            (
                11,
                lambda r: self.over_grpc("Tile", r, preproc_pb2.TileReply),
            ),
        ):
            fd = self.client.keep(make_empty_memfd(size))
            self.client.register(buffer_id, fd)
            request.destination.buffer.buffer_id = buffer_id
            request.destination.buffer.generation = 1
            reply = call(request)
            reply.report.ClearField("times")
            replies.append(reply)
            batch = numpy.frombuffer(
                read_memfd(fd, size), numpy.uint8
            ).reshape(-1, 80, 96, 3)
            self.assertEqual(len(batch), len(rects))
            for tile, (x, y, width, height) in zip(batch, rects):
                numpy.testing.assert_array_equal(
                    tile, picture[y : y + height, x : x + width]
                )
        self.assertEqual(replies[0], replies[1])
        self.assertEqual(replies[0].report.bytes_copied, 0)

    def test_finished_tiles_are_told_before_the_reply(self) -> None:
        picture, request = self.frame()
        rects = grid_rects((331, 217), (96, 80), 0.2)
        size = len(rects) * 96 * 80 * 3
        fd = self.client.keep(make_empty_memfd(size))
        self.client.register(10, fd)
        request.destination.buffer.buffer_id = 10
        request.destination.buffer.generation = 1

        def check(tile) -> int:
            offset = tile.index * 96 * 80 * 3
            got = numpy.frombuffer(
                read_memfd(fd, size)[offset : offset + 96 * 80 * 3],
                numpy.uint8,
            ).reshape(80, 96, 3)
            x, y, width, height = rects[tile.index]
            numpy.testing.assert_array_equal(
                got, picture[y : y + height, x : x + width]
            )
            return tile.index

        request.progress = True
        request_id = self.client.send("tile", request)
        told = []
        while True:
            frame, _ = self.client.receive()
            self.assertEqual(frame.request_id, request_id)
            if frame.WhichOneof("body") == "tile":
                break
            told += [check(t) for t in frame.tile_progress.tiles]
        self.assertEqual(sorted(told), list(range(len(rects))))
        self.assertEqual(len(frame.tile.tiles), len(rects))

        stream = self.grpc.channel.unary_stream(
            "/preproc.v1.Preproc/TileStream",
            request_serializer=preproc_pb2.TileRequest.SerializeToString,
            response_deserializer=preproc_pb2.TileStreamReply.FromString,
        )
        messages = list(
            stream(
                request,
                timeout=60,
                metadata=[
                    ("preproc-session-bin", self.client.welcome.token)
                ],
            )
        )
        told = [check(t) for m in messages for t in m.progress.tiles]
        self.assertEqual(sorted(told), list(range(len(rects))))
        self.assertEqual(
            [m.WhichOneof("body") for m in messages][-1], "done"
        )
        with self.assertRaises(RequestError) as caught:
            self.over_grpc("Tile", request, preproc_pb2.TileReply)
        self.assertEqual(caught.exception.field, "progress")

    def test_letterboxed_boxes_come_back(self) -> None:
        """A white rectangle of a small frame, found in the tile, lifted."""
        picture = numpy.zeros((90, 160, 3), numpy.uint8)
        picture[20:60, 40:120] = 255
        request = preproc_pb2.TileRequest(
            grid=tile_grid((256, 256), fit=image_pb2.FIT_LETTERBOX)
        )
        request.source.inline_bytes = encode(picture, "PNG")
        request.destination.inline = preproc_pb2.INLINE_ENCODING_RAW
        reply = self.over_grpc("Tile", request, preproc_pb2.TileReply)
        self.assertEqual(len(reply.tiles), 1)
        tile = numpy.frombuffer(reply.inline_bytes, numpy.uint8).reshape(
            256, 256, 3
        )
        rows, columns = numpy.nonzero(tile[:, :, 0] > 200)
        lift = preproc_pb2.LiftBoxesRequest(
            placement=reply.tiles[0],
            tile=image_pb2.Size(width=256, height=256),
            frame=reply.frame,
        )
        lift.boxes.add(
            x0=columns.min() / 256,
            y0=rows.min() / 256,
            x1=(columns.max() + 1) / 256,
            y1=(rows.max() + 1) / 256,
            score=1,
        )
        direct = self.client.call("lift_boxes", lift)
        unary = self.over_grpc("LiftBoxes", lift, preproc_pb2.LiftBoxesReply)
        self.assertEqual(direct, unary)
        box = direct.boxes[0]
        numpy.testing.assert_allclose(
            [box.x0, box.y0, box.x1, box.y1], [40, 20, 120, 60], atol=1.0
        )

    def test_merging_equals_the_definition(self) -> None:
        for seed in range(12):
            boxes = random_boxes(700, seed)
            metric = 1 + seed % 2
            threshold = (0.3, 0.5, 0.8)[seed % 3]
            agnostic = seed % 4 == 0
            request = preproc_pb2.MergeDetectionsRequest(
                metric=metric,
                threshold=threshold,
                class_agnostic=agnostic,
                max_detections=10000,
            )
            add_boxes(request, boxes)
            expected, into = merge_oracle(boxes, metric, threshold, agnostic)
            for reply in (
                self.client.call("merge_detections", request),
                self.over_grpc(
                    "MergeDetections",
                    request,
                    preproc_pb2.MergeDetectionsReply,
                ),
            ):
                got = numpy.array(
                    [
                        [b.x0, b.y0, b.x1, b.y1, b.score, b.label]
                        for b in reply.boxes
                    ],
                    numpy.float32,
                )
                numpy.testing.assert_array_equal(got, expected)
                self.assertEqual(list(reply.merged_into), into.tolist())

    def test_masks_of_one_object_are_united(self) -> None:
        random = numpy.random.default_rng(8)
        width, height = 90, 70
        y, x = numpy.mgrid[0:height, 0:width]
        whole = ((x - 45) / 30) ** 2 + ((y - 35) / 20) ** 2 < 1
        request = preproc_pb2.MergeDetectionsRequest(
            frame=image_pb2.Size(width=width, height=height)
        )
        for index, x0 in enumerate((0, 25, 45)):
            bounds = image_pb2.Rect(x=x0, y=0, width=45, height=height)
            part = whole[:, x0 : x0 + 45]
            columns = numpy.flatnonzero(part.any(axis=0))
            request.boxes.add(
                x0=15, y0=15, x1=75, y1=55, score=random.uniform(), label=1
            )
            self.assertGreater(len(columns), 0)
            piece = request.masks.add(bounds=bounds)
            if index == 1:
                piece.dense = (part * 255).astype(numpy.uint8).tobytes()
            else:
                piece.rle_counts.extend(coco_counts(part))
        reply = self.client.call("merge_detections", request)
        self.assertEqual(len(reply.masks), 1)
        mask = reply.masks[0]
        got = numpy.zeros((height, width), int)
        b = mask.bounds
        got[b.y : b.y + b.height, b.x : b.x + b.width] = coco_mask(
            mask.rle_counts, b.height, b.width
        )
        numpy.testing.assert_array_equal(got, whole)
        request.whole_frame_masks = True
        reply = self.client.call("merge_detections", request)
        self.assertEqual(list(reply.masks[0].rle_counts), coco_counts(whole))

    def test_bad_input_leaves_the_batch_alone(self) -> None:
        _, request = self.frame()
        size = len(grid_rects((331, 217), (96, 80), 0.2)) * 96 * 80 * 3
        fill = b"\x5a" * size
        fd = self.client.keep(make_memfd(fill))
        self.client.register(10, fd)
        request.destination.buffer.buffer_id = 10
        request.destination.buffer.generation = 1
        small = self.client.keep(make_memfd(fill[:-1]))
        self.client.register(12, small)

        def broken(change) -> preproc_pb2.TileRequest:
            copy = preproc_pb2.TileRequest()
            copy.CopyFrom(request)
            change(copy)
            return copy

        cases = (
            ("grid.overlap", lambda r: setattr(r.grid, "overlap", 1.0)),
            ("grid.overlap", lambda r: setattr(r.grid, "overlap", -0.1)),
            (
                "grid.overlap",
                lambda r: setattr(r.grid, "overlap", float("nan")),
            ),
            ("grid.tile", lambda r: setattr(r.grid.tile, "height", 0)),
            (
                "destination.buffer",
                lambda r: setattr(r.destination.buffer, "buffer_id", 12),
            ),
            ("first_tile", lambda r: setattr(r, "first_tile", 10**6)),
        )
        for field, change in cases:
            with self.subTest(field=field):
                for call in (
                    lambda r: self.client.call("tile", r),
                    lambda r: self.over_grpc(
                        "Tile", r, preproc_pb2.TileReply
                    ),
                ):
                    with self.assertRaises(RequestError) as caught:
                        call(broken(change))
                    self.assertEqual(caught.exception.code, "INVALID_ARGUMENT")
                    self.assertEqual(caught.exception.field, field)
                self.assertEqual(read_memfd(fd, size), fill)
                self.assertEqual(read_memfd(small, size - 1), fill[:-1])


class TilingCliTest(DaemonTest):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.picture = make_picture(211, 133, seed=2)
        self.photo = os.path.join(self.folder, "frame.png")
        with open(self.photo, "wb") as file:
            file.write(encode(self.picture, "PNG"))
        self.rects = grid_rects((211, 133), (80, 64), 0.2)

    def run_json(self, *arguments: str, input_text: str | None = None):
        done = subprocess.run(
            [
                os.path.join(BIN_DIR, "preprocctl"),
                *("--runtime-dir", self.daemon.folder, "--json"),
                *arguments,
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            input=input_text,
        )
        self.assertEqual(
            len(done.stdout.strip().splitlines()), 1, done.stderr
        )
        return done.returncode, json.loads(done.stdout)

    def crops(self) -> list[numpy.ndarray]:
        return [
            self.picture[y : y + h, x : x + w] for x, y, w, h in self.rects
        ]

    def test_array_file(self) -> None:
        path = os.path.join(self.folder, "tiles.npy")
        for more, axes in (
            ((), (0, 1, 2, 3)),
            (("--layout", "chw"), (0, 3, 1, 2)),
        ):
            status, answer = self.run_json(
                *("tile", self.photo, "-o", path, "--tile", "80x64", *more)
            )
            self.assertEqual(status, 0, answer)
            got = numpy.load(path)
            numpy.testing.assert_array_equal(
                got, numpy.stack(self.crops()).transpose(axes)
            )
            self.assertEqual(answer["shape"], list(got.shape))
            self.assertEqual(len(answer["tiles"]), len(self.rects))
            self.assertEqual(answer["bytes_copied"], 0)
        status, answer = self.run_json(
            *("tile", self.photo, "-o", path, "--tile", "80x64"),
            *("--dtype", "f32", "--overlap", "0.5"),
        )
        self.assertEqual(status, 0, answer)
        self.assertEqual(numpy.load(path).dtype, numpy.float32)

    def test_one_file_per_tile(self) -> None:
        folder = os.path.join(self.folder, "out")
        status, answer = self.run_json(
            *("tile", self.photo, "-o", folder, "--tile", "80x64")
        )
        self.assertEqual(status, 0, answer)
        self.assertEqual(len(os.listdir(folder)), len(self.rects))
        for index, crop in enumerate(self.crops()):
            path = os.path.join(folder, f"tile_{index:05d}.png")
            numpy.testing.assert_array_equal(
                numpy.asarray(Image.open(path)), crop
            )
        status, answer = self.run_json(
            *("tile", self.photo, "-o", folder, "--tile", "80x64"),
            *("--layout", "chw"),
        )
        self.assertEqual(status, 0, answer)
        got = numpy.load(os.path.join(folder, "tile_00003.npy"))
        numpy.testing.assert_array_equal(
            got, self.crops()[3].transpose(2, 0, 1)
        )

    def test_small_frame_is_stretched_or_letterboxed(self) -> None:
        """Bug case A-01; L-01: halves as Ultralytics rounds them."""
        path = os.path.join(self.folder, "tiles.npy")
        raw = os.path.join(self.folder, "frame.raw")
        with open(raw, "wb") as file:
            file.write(numpy.full((33, 64, 3), 255, numpy.uint8).tobytes())
        # 160 * 33 / 64 = 82.5.
        for more, content in (
            ((), (0, 0, 160, 160)),
            (("--fit", "letterbox"), (0, 38, 160, 83)),
            (
                ("--fit", "letterbox", "--letterbox-rule", "ultralytics"),
                (0, 39, 160, 82),
            ),
        ):
            status, answer = self.run_json(
                *("tile", raw, "--raw", "rgb:64x33", "-o", path),
                *("--tile", "160x160", "--pad", "0", *more),
            )
            self.assertEqual(status, 0, answer)
            self.assertEqual(len(answer["tiles"]), 1)
            shown = answer["tiles"][0]["content"]
            x, y, width, height = content
            self.assertEqual(
                shown, {"x": x, "y": y, "width": width, "height": height}
            )
            expected = numpy.zeros((1, 160, 160, 3), numpy.uint8)
            expected[:, y : y + height, x : x + width] = 255
            numpy.testing.assert_array_equal(numpy.load(path), expected)
        status, answer = self.run_json(
            *("tile", self.photo, "-o", path, "--tile", "300x200")
        )
        self.assertEqual(status, 0, answer)
        self.assertEqual(numpy.load(path).shape, (1, 200, 300, 3))

    def test_refusals(self) -> None:
        path = os.path.join(self.folder, "tiles.npy")
        for arguments, status, reason in (
            (("-o", path, "--tile", "80x64", "--overlap", "1"), 4, None),
            (("-o", path, "--tile", "0x64"), 4, "GEOMETRY_INVALID"),
            (("-o", path, "--tile", "80x64", "--fit", "cover"), 4, None),
            (("--tile", "80x64"), 2, "USAGE"),
            (
                ("--plan-only", "--tile", "512x512", "--overlap", "0.999")
                + ("--frame", "2000x2000"),
                4,
                "TOO_LARGE",
            ),
        ):
            with self.subTest(arguments=arguments):
                got, answer = self.run_json("tile", self.photo, *arguments)
                self.assertEqual(got, status, answer)
                if reason is not None:
                    self.assertEqual(answer["error"]["reason"], reason)
        self.assertFalse(os.path.exists(path))

    def test_merge(self) -> None:
        boxes = random_boxes(3000, 1)
        scene = {
            "boxes": [
                dict(
                    zip(
                        ("x0", "y0", "x1", "y1", "score", "label"),
                        [*map(float, box[:5]), int(box[5])],
                    )
                )
                for box in boxes
            ]
        }
        status, answer = self.run_json(
            *("merge", "-", "--max-detections", "100000"),
            input_text=json.dumps(scene),
        )
        self.assertEqual(status, 0, answer)
        expected, into = merge_oracle(
            boxes, preproc_pb2.MATCH_METRIC_IOS, 0.5, False
        )
        self.assertEqual(len(answer["boxes"]), len(expected))
        self.assertEqual(answer["merged_into"], into.tolist())
        scene["boxes"][7]["x0"] = "NaN"
        status, answer = self.run_json("merge", "-", input_text=json.dumps(scene))
        self.assertEqual(status, 4, answer)
        self.assertEqual(answer["error"]["reason"], "FIELD_INVALID")
        for text in ("[]", "{", '{"boxes": 3}', '{"boxes": [{"x0": []}]}'):
            status, answer = self.run_json("merge", "-", input_text=text)
            self.assertEqual(status, 4, answer)

    def test_boxes_of_tiles_are_lifted_and_merged(self) -> None:
        status, scene = self.run_json(
            *("tile", self.photo, "--plan-only", "--tile", "80x64")
        )
        self.assertEqual(status, 0)
        # One object, seen by every tile that it reaches into.
        left, top, right, bottom = 60, 40, 120, 90
        seen = 0
        for tile in scene["tiles"]:
            x0, y0 = tile["x"], tile["y"]
            x1, y1 = x0 + tile["width"], y0 + tile["height"]
            box = [
                (max(left, x0) - x0) / 80,
                (max(top, y0) - y0) / 64,
                (min(right, x1) - x0) / 80,
                (min(bottom, y1) - y0) / 64,
            ]
            if box[2] - box[0] > 0.3 and box[3] - box[1] > 0.3:
                seen += 1
                tile["boxes"] = [
                    dict(zip(("x0", "y0", "x1", "y1"), box), score=1 / seen)
                ]
        self.assertGreater(seen, 1)
        path = os.path.join(self.folder, "merged.json")
        status, answer = self.run_json(
            *("merge", "-", "-o", path, "--threshold", "0.1"),
            input_text=json.dumps(scene),
        )
        self.assertEqual(status, 0, answer)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(json.load(file), answer)
        self.assertLess(len(answer["boxes"]), seen)


if __name__ == "__main__":
    unittest.main()
