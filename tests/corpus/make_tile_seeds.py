#!/usr/bin/python3
"""Makes the seeds of request_fuzzer that are about tiles and boxes.

Writes into request/ beside this script; needs the messages that the build
makes for Python: PYTHONPATH=build/tests/integration/gen. The first byte of a
seed says which request it is, see daemon/service/request_fuzzer.cc.
"""

import pathlib

from preproc.v1 import image_pb2, preproc_pb2

HERE = pathlib.Path(__file__).resolve().parent
TILE, TILE_ONE, MERGE, LIFT = b"\xf0", b"\xf1", b"\xf2", b"\xf3"


def frame(request, width: int = 9, height: int = 5) -> None:
    request.source.inline_bytes = bytes(range(width * height))
    layout = request.source.layout
    layout.format = image_pb2.PIXEL_FORMAT_GREY
    layout.width, layout.height = width, height
    request.destination.inline = preproc_pb2.INLINE_ENCODING_RAW


def tile(**changes) -> bytes:
    request = preproc_pb2.TileRequest(
        grid=preproc_pb2.TileGrid(
            tile=image_pb2.Size(width=4, height=3), overlap=0.25
        ),
        **changes,
    )
    frame(request)
    return request.SerializeToString()


def tile_one() -> bytes:
    request = preproc_pb2.TileOneRequest()
    frame(request)
    request.placement.crop.CopyFrom(image_pb2.Rect(x=1, width=4, height=5))
    request.placement.content.CopyFrom(image_pb2.Rect(y=1, width=4, height=2))
    request.destination.layout.width = 4
    request.destination.layout.height = 4
    return request.SerializeToString()


def boxes(request, count: int, scale: float) -> None:
    for i in range(count):
        request.boxes.add(
            x0=i * scale,
            x1=(i + 2) * scale,
            y1=2 * scale,
            score=1 / (i + 1),
            label=i % 2,
        )


def merge(with_masks: bool) -> bytes:
    request = preproc_pb2.MergeDetectionsRequest(class_agnostic=True)
    boxes(request, 3, 3.0)
    if with_masks:
        request.frame.CopyFrom(image_pb2.Size(width=20, height=8))
        for i in range(3):
            piece = request.masks.add(
                bounds=image_pb2.Rect(x=3 * i, width=3, height=2)
            )
            if i == 1:
                piece.dense = bytes([0, 255, 255, 128, 127, 0])
            else:
                piece.rle_counts.extend([1, 4, 1])
    return request.SerializeToString()


def lift() -> bytes:
    request = preproc_pb2.LiftBoxesRequest(
        tile=image_pb2.Size(width=64, height=64)
    )
    boxes(request, 2, 0.25)
    request.placement.crop.CopyFrom(image_pb2.Rect(x=7, width=32, height=16))
    request.placement.content.CopyFrom(
        image_pb2.Rect(y=16, width=64, height=32)
    )
    return request.SerializeToString()


SEEDS = {
    "tile_grid": TILE + tile(),
    "tile_run": TILE + tile(first_tile=2, tile_count=3),
    "tile_stride": TILE + tile(element_stride_bytes=1 << 63),
    "tile_one_place": TILE_ONE + tile_one(),
    "merge_boxes": MERGE + merge(False),
    "merge_masks": MERGE + merge(True),
    "lift_letterbox": LIFT + lift(),
}

if __name__ == "__main__":
    for name, content in SEEDS.items():
        (HERE / "request" / name).write_bytes(content)
