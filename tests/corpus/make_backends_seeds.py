#!/usr/bin/python3
"""Makes the small seed files of the backends fuzzer, in backends/ beside
this: one choice of two bytes per field, in the order in which
tests/conformance/random_case.cc takes them; a file may end early, the rest is
zero then. Findings that the fuzzer made are kept beside the seeds under their
own names and are not touched.
"""

import pathlib
import struct

HERE = pathlib.Path(__file__).resolve().parent
FORMATS = (
    "grey rgb rgba bgr bgra planar_rgb planar_bgr planar_rgba "
    "nv12 nv21 nv16 nv24 i420 yuyv uyvy vyuy"
).split()
TYPES = "u8 i8 u16 i16 f16 bf16 f32".split()
FILTERS = (
    "nearest bilinear bilinear-aa area bicubic bicubic-aa lanczos3"
).split()


def seed(
    source: str,
    destination: str,
    dtype: str = "u8",
    sizes: tuple[int, int, int, int] = (150, 90, 64, 48),
    resampling: str = "bilinear",
    orientation: int = 1,
    fit: int = 1,
    fancy: bool = False,
) -> bytes:
    fields = [
        FORMATS.index(source),
        FORMATS.index(destination),
        1,
        TYPES.index(dtype),
        *(side - 1 for side in sizes),
        FILTERS.index(resampling),
        orientation - 1,
        fit - 1,
        0,
        int(fancy),
        1,
    ]
    return struct.pack(f"<{len(fields)}H", *fields)


SEEDS = {
    "letterbox": seed("nv12", "rgb", fit=2),
    "tensor": seed("nv12", "planar_rgb", "f32", resampling="area", fit=2),
    "halves": seed("rgb", "planar_rgb", "f16", resampling="bilinear-aa"),
    "signed": seed("nv21", "bgr", "i8", (150, 90, 140, 160)),
    "turned": seed("rgba", "bgra", orientation=6, resampling="lanczos3"),
    "mirrored": seed("i420", "rgba", orientation=2, fancy=True),
    "packed_yuv": seed("yuyv", "rgb", sizes=(131, 70, 131, 70)),
    "same_size": seed("nv12", "rgba", sizes=(129, 65, 129, 65)),
    "enlarged": seed("grey", "planar_rgb", "bf16", (20, 30, 160, 150)),
    "encoder": seed("rgb", "nv12", resampling="bicubic"),
    "cover": seed("planar_rgba", "grey", "u16", fit=3),
}


def main() -> None:
    folder = HERE / "backends"
    folder.mkdir(exist_ok=True)
    for name, content in SEEDS.items():
        (folder / name).write_bytes(content)


if __name__ == "__main__":
    main()
