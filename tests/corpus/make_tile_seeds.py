#!/usr/bin/python3
"""Makes the seeds of request_fuzzer about tiles, boxes and masks.

Writes into request/ beside this script; needs the messages that the build
makes for Python: PYTHONPATH=build/tests/integration/gen. The first byte of a
seed says which request it is, see daemon/service/request_fuzzer.cc.
"""

import pathlib

from preproc.v1 import image_pb2, preproc_pb2

HERE = pathlib.Path(__file__).resolve().parent
TILE, TILE_ONE, MERGE, LIFT = b"\xf0", b"\xf1", b"\xf2", b"\xf3"
MASKS, DRAW, PALETTE = b"\xf4", b"\xf5", b"\xf6"


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


def mask_request(element_type: int, **changes):
    request = preproc_pb2.MaterializeMasksRequest(**changes)
    element = {image_pb2.DATA_TYPE_F32: 4, image_pb2.DATA_TYPE_F16: 2}.get(
        element_type, 1
    )
    for tensor, shape in (
        (request.prototypes, (4, 5, 2)),
        (request.coefficients, (2, 2)),
    ):
        count = 1
        for size in shape:
            tensor.shape.append(size)
            count *= size
        tensor.dtype = element_type
        tensor.inline_bytes = bytes(
            37 * i % 61 if element == 1 or i % element == element - 1 else 0
            for i in range(count * element)
        )
        if element == 1:
            tensor.scales.append(0.5)
            tensor.zero_points.append(3)
    boxes(request, 2, 0.25)
    for box in request.boxes:
        box.track_id = 7
    return request


def masks(element_type: int, **changes) -> bytes:
    request = mask_request(element_type, **changes)
    request.destination.inline = preproc_pb2.INLINE_ENCODING_RAW
    return request.SerializeToString()


def semantic() -> bytes:
    request = mask_request(
        image_pb2.DATA_TYPE_F32,
        semantic=True,
        output=preproc_pb2.MASK_OUTPUT_RLE_TEXT,
    )
    request.ClearField("coefficients")
    request.ClearField("boxes")
    return request.SerializeToString()


def draw(**changes) -> bytes:
    request = preproc_pb2.DrawMasksRequest(draw_boxes=True, **changes)
    request.masks.CopyFrom(mask_request(image_pb2.DATA_TYPE_I8))
    request.destination.inline = preproc_pb2.INLINE_ENCODING_RAW
    layout = request.destination.layout
    layout.format = image_pb2.PIXEL_FORMAT_NV12
    layout.width, layout.height = 11, 7
    return request.SerializeToString()


def draw_dense() -> bytes:
    request = preproc_pb2.DrawMasksRequest(opacity=0.5)
    request.background.inline_bytes = bytes(range(60))
    layout = request.background.layout
    layout.format = image_pb2.PIXEL_FORMAT_RGB
    layout.width, layout.height = 5, 4
    request.destination.inline = preproc_pb2.INLINE_ENCODING_RAW
    request.palette.add(r=1, g=2, b=3, a=200)
    dense = request.dense
    dense.size.CopyFrom(image_pb2.Size(width=3, height=3))
    dense.pixels.inline_bytes = bytes([0, 200, 255, 127])
    dense.pixels.shape.append(4)
    dense.pixels.dtype = image_pb2.DATA_TYPE_U8
    dense.masks.add(bounds=image_pb2.Rect(x=1, width=2, height=2))
    return request.SerializeToString()


def palette() -> bytes:
    request = preproc_pb2.SetPaletteRequest()
    request.colors.add(r=10, g=20, b=30, a=255)
    return request.SerializeToString()


CONTENT = {
    "content": image_pb2.Rect(y=16, width=64, height=32),
    "input": image_pb2.Size(width=64, height=64),
    "size": image_pb2.Size(width=13, height=9),
}
SEEDS = {
    "masks_f32": MASKS + masks(image_pb2.DATA_TYPE_F32),
    "masks_f16_plane": MASKS
    + masks(
        image_pb2.DATA_TYPE_F16, extent=preproc_pb2.MASK_EXTENT_PLANE, **CONTENT
    ),
    "masks_i8_polygons": MASKS
    + masks(
        image_pb2.DATA_TYPE_I8,
        output=preproc_pb2.MASK_OUTPUT_POLYGONS,
        **CONTENT,
    ),
    "masks_sigmoid": MASKS
    + masks(
        image_pb2.DATA_TYPE_F32,
        values=preproc_pb2.MASK_VALUES_CONTINUOUS,
        extent=preproc_pb2.MASK_EXTENT_UNCROPPED,
        dtype=image_pb2.DATA_TYPE_F32,
    ),
    "masks_semantic": MASKS + semantic(),
    "draw_nv12": DRAW + draw(color_mode=preproc_pb2.COLOR_MODE_TRACK),
    "draw_dense": DRAW + draw_dense(),
    "palette": PALETTE + palette(),
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
