#!/usr/bin/python3
"""Makes the small seed files of the JPEG, PNG and EXIF fuzzers.

Writes into jpeg/, png/ and exif/ beside this script; needs Debian's
python3-pil. Findings that fuzzers made are kept beside the seeds under their
own names and are not touched.
"""

import io
import pathlib
import struct
import zlib

from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent


def card(mode: str, width: int, height: int) -> Image.Image:
    image = Image.new("RGB", (width, height))
    for y in range(height):
        for x in range(width):
            image.putpixel((x, y), (x * 9 % 256, y * 13 % 256, (x * y) % 256))
    return image.convert(mode)


def jpeg(image: Image.Image, **options) -> bytes:
    out = io.BytesIO()
    image.save(out, "JPEG", **options)
    return out.getvalue()


def without_segments(data: bytes, marker: int) -> bytes:
    out, at = data[:2], 2
    while data[at + 1] != 0xDA:
        end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        if data[at + 1] != marker:
            out += data[at:end]
        at = end
    return out + data[at:]


def tiff(value: int, order: str) -> bytes:
    mark = b"II" if order == "<" else b"MM"
    return (
        mark
        + struct.pack(order + "HI", 42, 8)
        + struct.pack(order + "HHHIHHI", 1, 0x0112, 3, 1, value, 0, 0)
    )


def jpeg_seeds() -> dict:
    color = card("RGB", 20, 18)
    plain = jpeg(color, quality=60)
    height = plain.index(b"\xff\xc0") + 5
    unknown = plain[:height] + b"\0\0" + plain[height + 2 :]
    exif = b"Exif\0\0" + tiff(6, ">")
    adobe = b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0\0"
    return {
        "grey": jpeg(card("L", 17, 9)),
        "444": jpeg(color, subsampling=0),
        "422": jpeg(color, subsampling=1),
        "420": plain,
        "progressive": jpeg(color, progressive=True, subsampling=2),
        "cmyk": jpeg(card("CMYK", 9, 9)),
        "rgb": plain[:2] + adobe + without_segments(plain, 0xE0)[2:],
        "restart-interval": plain[:2] + b"\xff\xdd\0\4\1\0" + plain[2:],
        "no-tables": without_segments(plain, 0xC4),
        "no-end": plain[:-2],
        "cut": plain[: len(plain) - 60],
        "line-count": unknown[:-2] + b"\xff\xdc\0\x04\0\x12\xff\xd9",
        "turned": jpeg(color, exif=exif, quality=20),
        "lossless": plain[: height - 4] + b"\xc3" + plain[height - 3 :],
    }


def chunk(kind: bytes, body: bytes) -> bytes:
    check = zlib.crc32(kind + body)
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", check)


def png(depth: int, kind: int, samples: int, *chunks: bytes, interlace=0):
    width, height = 11, 7
    row = (width * samples * depth + 7) // 8
    if interlace:
        starts = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4)]
        starts += [(0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
        data = b""
        for x0, y0, dx, dy in starts:
            columns = len(range(x0, width, dx))
            size = (columns * samples * depth + 7) // 8
            for _ in range(y0, height, dy) if columns else []:
                data += b"\0" + bytes(i * 29 % 256 for i in range(size))
    else:
        data = b"".join(
            bytes([y % 5]) + bytes((y * 31 + i * 7) % 256 for i in range(row))
            for y in range(height)
        )
    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlace)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + b"".join(chunks)
        + chunk(b"IDAT", zlib.compress(data))
        + chunk(b"IEND", b"")
    )


def png_seeds() -> dict:
    palette = chunk(b"PLTE", bytes(range(48)))
    alpha = chunk(b"tRNS", b"\0\x10\x20")
    rgb = png(8, 2, 3)
    return {
        "grey-1": png(1, 0, 1),
        "grey-4": png(4, 0, 1, chunk(b"tRNS", b"\0\3")),
        "grey-16": png(16, 0, 1),
        "grey-alpha": png(8, 4, 2),
        "rgb": rgb,
        "rgb-16": png(16, 2, 3),
        "rgb-key": png(8, 2, 3, chunk(b"tRNS", b"\0\1\0\2\0\3")),
        "rgba": png(8, 6, 4),
        "palette-4": png(4, 3, 1, palette, alpha),
        "interlaced-rgb": png(8, 2, 3, interlace=1),
        "interlaced-grey-1": png(1, 0, 1, interlace=1),
        "turned": png(8, 2, 3, chunk(b"eXIf", tiff(8, "<"))),
        "no-end": rgb[:-12],
        "cut": rgb[:-60],
        "profile": png(8, 2, 3, chunk(b"iCCP", b"x\0\0abc")),
    }


def exif_seeds() -> dict:
    seeds = {f"value-{v}": tiff(v, "<" if v % 2 else ">") for v in range(10)}
    seeds["loop"] = b"MM\0*" + bytes(8)
    seeds["count"] = b"II*\0\x08\0\0\0\xff\xff"
    seeds["far"] = b"II*\0\xff\xff\xff\xff\x01\0"
    return seeds


def main() -> None:
    groups = (("jpeg", jpeg_seeds), ("png", png_seeds), ("exif", exif_seeds))
    for name, make in groups:
        folder = HERE / name
        folder.mkdir(exist_ok=True)
        for seed, data in make().items():
            (folder / f"seed-{seed}").write_bytes(data)


if __name__ == "__main__":
    main()
