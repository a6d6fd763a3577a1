"""Pictures and requests for tests; the same seed gives the same bytes."""

import io

import numpy
from PIL import Image
from preproc.v1 import image_pb2, preproc_pb2


def make_picture(width: int, height: int, seed: int = 0) -> numpy.ndarray:
    """Smooth waves, some edges and a little noise, as photographs have;
    uint8 [height, width, 3], RGB."""
    random = numpy.random.default_rng(seed)
    y, x = numpy.mgrid[0:height, 0:width].astype(numpy.float64)
    channels = []
    for channel in range(3):
        waves = numpy.zeros((height, width))
        for _ in range(4):
            fx, fy = random.uniform(-0.06, 0.06, 2)
            phase = random.uniform(0, 2 * numpy.pi)
            waves += numpy.sin(fx * x + fy * y + phase)
        channels.append(128 + 26 * waves + 8 * channel)
    picture = numpy.stack(channels, axis=-1)
    for _ in range(6):
        x0 = random.integers(0, max(1, width - 8))
        y0 = random.integers(0, max(1, height - 8))
        w = random.integers(4, max(5, width // 3))
        h = random.integers(4, max(5, height // 3))
        picture[y0 : y0 + h, x0 : x0 + w] = (
            0.5 * picture[y0 : y0 + h, x0 : x0 + w]
            + 0.5 * random.integers(0, 256, 3)
        )
    picture += random.normal(0, 3, picture.shape)
    return numpy.clip(numpy.rint(picture), 0, 255).astype(numpy.uint8)


def encode(picture: numpy.ndarray, kind: str, **options) -> bytes:
    """`kind`: "JPEG" (quality 90, 4:2:0 unless told) or "PNG"."""
    if kind == "JPEG":
        options = {"quality": 90, "subsampling": "4:2:0", **options}
    out = io.BytesIO()
    Image.fromarray(picture).save(out, kind, **options)
    return out.getvalue()


def layout(
    width: int,
    height: int,
    pixel_format: int = image_pb2.PIXEL_FORMAT_RGB,
    dtype: int = image_pb2.DATA_TYPE_U8,
    planes: list[tuple[int, int]] | None = None,
) -> image_pb2.ImageLayout:
    """`planes`: (offset_bytes, stride_bytes) each; None = tight."""
    result = image_pb2.ImageLayout(
        format=pixel_format, dtype=dtype, width=width, height=height
    )
    for offset, stride in planes or []:
        result.planes.add(offset_bytes=offset, stride_bytes=stride)
    return result


def inline_request(
    content: bytes, width: int, height: int, **spec
) -> preproc_pb2.ConvertRequest:
    """Encoded bytes in the message, rgb pixels in the reply."""
    request = preproc_pb2.ConvertRequest(spec=preproc_pb2.ConvertSpec(**spec))
    request.source.inline_bytes = content
    request.destination.inline = preproc_pb2.INLINE_ENCODING_RAW
    request.destination.layout.CopyFrom(layout(width, height))
    return request


def buffer_request(
    source_id: int, destination_id: int, width: int, height: int, **spec
) -> preproc_pb2.ConvertRequest:
    """Buffers of generation 1; rgb pixels of this size at the beginning of
    the destination."""
    request = preproc_pb2.ConvertRequest(spec=preproc_pb2.ConvertSpec(**spec))
    request.source.buffer.buffer_id = source_id
    request.source.buffer.generation = 1
    request.destination.buffer.buffer_id = destination_id
    request.destination.buffer.generation = 1
    request.destination.layout.CopyFrom(layout(width, height))
    return request
