#!/usr/bin/python3
"""Makes the small seed files of the planner fuzzer, in planner/ beside this.

One keyword per field, in the order in which engine/convert/planner_fuzzer.cc
takes them; a file may end early, the rest is zero then. Findings that the
fuzzer made are kept beside the seeds under their own names and are not
touched.
"""

import pathlib
import struct

HERE = pathlib.Path(__file__).resolve().parent
ALL = 0xFFFFFFFF


def desc(pixel_format: int, dtype: int, width: int, height: int) -> bytes:
    return struct.pack("<BBhh", pixel_format, dtype, width, height)


def spec(
    rect=None, place=None, orientation=1, fit=1, rule=0, filter=2, norm=None, quant=None
) -> bytes:
    out = b""
    flags = 0
    if rect:
        flags |= 1
        out += struct.pack("<4i", *rect)
    if place:
        flags |= 2
        out += struct.pack("<4i", *place)
    out += struct.pack("<4B", orientation, fit, rule, filter)
    if norm:
        flags |= 4
        out += struct.pack("<2d", *norm)
    if quant:
        flags |= 8
        out += struct.pack("<di", *quant)
    return bytes([flags]) + out


def more(
    source_color=(0, 0),
    destination_color=(0, 0),
    chroma=0,
    precision=0,
    numerics=0,
    jpeg=0,
    output=(0, 0, 0, 0, 0),
) -> bytes:
    return (
        bytes([*source_color, *destination_color, chroma, precision, numerics, jpeg])
        + struct.pack("<3B2i", *output)
    )


def backend(rank=1, absent=0, sets=(ALL,) * 9, max_axis=16384) -> bytes:
    return struct.pack("<bB9IH", rank, absent, *sets, max_axis)


RGB = desc(2, 1, 640, 480)
NV12 = desc(9, 1, 1919, 1079)
TENSOR = desc(6, 7, 640, 640)

SEEDS = {
    "letterbox_float": NV12 + TENSOR + spec(fit=2, rule=2) + more() + backend(),
    "cover_turned": RGB + desc(3, 2, 97, 61) + spec(orientation=7, fit=3) + more(),
    "quantised_i8": RGB + desc(2, 2, 8, 8) + spec(quant=(0.5, -3)) + more(),
    "colors": NV12 + desc(13, 1, 33, 17) + spec() + more((3, 2), (1, 1), 2, 2, 1, 1),
    "layout_of_yuv": NV12 + RGB + spec() + more(output=(9, 1, 2, 64, 64)),
    "by_name": RGB + RGB + spec() + more() + backend(-1) + backend(2, 1) + b"\3",
    "nobody": RGB + RGB + spec() + more() + backend() + backend() + b"\4",
    "declines": RGB + TENSOR + spec() + more() + backend(1, 0, (0,) * 9) + backend(2),
}


def main() -> None:
    folder = HERE / "planner"
    folder.mkdir(exist_ok=True)
    for name, data in SEEDS.items():
        (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
