"""Random mask requests and what they mean in numpy, from the formulas of
engine/masks/mask_plan.h; and COCO's forms back to masks."""

import numpy
from preproc.v1 import image_pb2, preproc_pb2

F32, F16 = image_pb2.DATA_TYPE_F32, image_pb2.DATA_TYPE_F16
I8, I16 = image_pb2.DATA_TYPE_I8, image_pb2.DATA_TYPE_I16
NUMPY_TYPES = {
    F32: numpy.float32,
    F16: numpy.float16,
    I8: numpy.int8,
    I16: numpy.int16,
}


def round_half_up(value):
    return int(numpy.floor(value + 0.5))


class Tensor:
    """Random stored values and what they mean."""

    def __init__(self, random, shape, dtype, channels, axis) -> None:
        self.dtype = dtype
        self.scales, self.zero_points = [], []
        if dtype in (F32, F16):
            self.stored = random.uniform(-1, 1, shape).astype(
                NUMPY_TYPES[dtype]
            )
            self.values = self.stored.astype(numpy.float64)
            return
        most = 127 if dtype == I8 else 2000
        self.stored = random.integers(-most, most, shape, endpoint=True).astype(
            NUMPY_TYPES[dtype]
        )
        count = channels if random.integers(2) else 1
        scales = random.uniform(0.005, 0.02, count).astype(numpy.float32)
        points = random.integers(-9, 9, count)
        self.scales = [float(s) for s in scales]
        self.zero_points = [int(p) for p in points]
        along = [1] * len(shape)
        along[axis] = count
        self.values = (
            self.stored.astype(numpy.float64) - points.reshape(along)
        ) * scales.astype(numpy.float64).reshape(along)

    def fill(self, ref) -> None:
        ref.shape.extend(self.stored.shape)
        ref.dtype = self.dtype
        ref.scales.extend(self.scales)
        ref.zero_points.extend(self.zero_points)

    def bytes(self) -> bytes:
        return self.stored.tobytes()


class Scene:
    def __init__(self, seed: int) -> None:
        random = numpy.random.default_rng(seed)
        self.random = random
        self.chw = bool(random.integers(2))
        self.height = int(random.integers(20, 61))
        self.width = int(random.integers(20, 61))
        k = int(random.choice([1, 4, 31, 32, 33]))
        count = int(random.integers(1, 7))
        grid = (self.height, self.width)
        self.prototypes = Tensor(
            random,
            (k, *grid) if self.chw else (*grid, k),
            int(random.choice([F32, F16, I8])),
            k,
            0 if self.chw else 2,
        )
        self.coefficients = Tensor(
            random, (count, k), int(random.choice([F32, F16, I8, I16])), k, 1
        )
        corners = numpy.sort(random.uniform(0, 1, (count, 2, 2)), axis=1)
        self.boxes = corners.reshape(count, 4).astype(numpy.float32)
        self.content = None
        planes = self.prototypes.values
        if not self.chw:
            planes = planes.transpose(2, 0, 1)
        self.logits = numpy.tensordot(
            self.coefficients.values, planes, axes=(1, 0)
        )

    def letterbox(self) -> None:
        x, y = (int(v) for v in self.random.integers(0, 100, 2))
        w, h = (int(v) for v in self.random.integers(150, 220, 2))
        self.content, self.input = (x, y, w, h), (320, 320)

    def request(self) -> preproc_pb2.MaterializeMasksRequest:
        request = preproc_pb2.MaterializeMasksRequest(prototypes_chw=self.chw)
        self.prototypes.fill(request.prototypes)
        self.coefficients.fill(request.coefficients)
        for i, box in enumerate(self.boxes):
            request.boxes.add(
                x0=box[0],
                y0=box[1],
                x1=box[2],
                y1=box[3],
                label=3 * i,
                track_id=40 + i,
            )
        if self.content:
            x, y, w, h = self.content
            request.content.CopyFrom(
                image_pb2.Rect(x=x, y=y, width=w, height=h)
            )
            request.input.CopyFrom(image_pb2.Size(width=320, height=320))
        return request

    def axis(self, along: int, pixels: int):
        """First tap, second tap and weight of the second, per pixel."""
        planes = self.width if along == 0 else self.height
        begin, length = 0.0, float(planes)
        if self.content:
            begin = self.content[along] / self.input[along] * planes
            length = self.content[along + 2] / self.input[along] * planes
        low = numpy.floor(begin + 1e-9)
        high = numpy.ceil(begin + length - 1e-9) - 1
        at = begin + (numpy.arange(pixels) + 0.5) * length / pixels - 0.5
        at = numpy.clip(at, low, high)
        tap = numpy.floor(at).astype(int)
        return tap, numpy.minimum(tap + 1, int(high)), at - tap

    def scaled_logits(self, width: int, height: int) -> numpy.ndarray:
        x0, x1, fx = self.axis(0, width)
        y0, y1, fy = self.axis(1, height)
        rows = self.logits[:, :, x0] * (1 - fx) + self.logits[:, :, x1] * fx
        fy = fy[:, None]
        return rows[:, y0] * (1 - fy) + rows[:, y1] * fy

    def scaled_box(self, i: int, width: int, height: int):
        edges = []
        for along, pixels in ((0, width), (1, height)):
            low, high = float(self.boxes[i][along]), float(
                self.boxes[i][along + 2]
            )
            if self.content:
                begin = self.content[along] / self.input[along]
                length = self.content[along + 2] / self.input[along]
                low, high = (
                    min(max((v - begin) / length, 0.0), 1.0)
                    for v in (low, high)
                )
            first = min(round_half_up(low * pixels), pixels - 1)
            last = min(max(round_half_up(high * pixels), first + 1), pixels)
            edges.append((first, last))
        return edges

    def proto_box(self, i: int):
        edges = []
        for along, pixels in ((0, self.width), (1, self.height)):
            low, high = float(self.boxes[i][along]), float(
                self.boxes[i][along + 2]
            )
            first = min(int(numpy.floor(low * pixels)), pixels - 1)
            last = int(numpy.ceil(high * pixels))
            edges.append((first, min(max(last, first + 1), pixels)))
        return edges

    def masks(self, size=None) -> numpy.ndarray:
        """Cropped binary masks, [N, H, W]."""
        logits = self.scaled_logits(*size) if size else self.logits
        masks = numpy.zeros(logits.shape, numpy.uint8)
        for i in range(len(logits)):
            (x0, x1), (y0, y1) = (
                self.scaled_box(i, *size) if size else self.proto_box(i)
            )
            inside = logits[i, y0:y1, x0:x1] > 0
            masks[i, y0:y1, x0:x1] = numpy.where(inside, 255, 0)
        return masks


def set_size(request, width: int, height: int) -> None:
    request.size.CopyFrom(image_pb2.Size(width=width, height=height))


def paste(reply, memory: bytes) -> numpy.ndarray:
    """Box masks as whole planes."""
    shape = (len(reply.masks), reply.size.height, reply.size.width)
    masks = numpy.zeros(shape, numpy.uint8)
    for i, mask in enumerate(reply.masks):
        b = mask.bounds
        box = numpy.frombuffer(
            memory, numpy.uint8, b.width * b.height, mask.offset_bytes
        ).reshape(b.height, b.width)
        masks[i, b.y : b.y + b.height, b.x : b.x + b.width] = box
    return masks


def runs_to_mask(counts, width: int, height: int) -> numpy.ndarray:
    values = numpy.arange(len(counts)) % 2 * 255
    flat = numpy.repeat(values, counts).astype(numpy.uint8)
    return flat.reshape(width, height).T


def text_to_runs(text: str) -> list[int]:
    counts, at = [], 0
    while at < len(text):
        value, shift, group = 0, 0, 0x20
        while group & 0x20:
            group = ord(text[at]) - 48
            value |= (group & 0x1F) << shift
            shift += 5
            at += 1
        if group & 0x10:
            value -= 1 << shift
        counts.append(value + (counts[-2] if len(counts) > 2 else 0))
    return counts


def rings_to_mask(mask, width: int, height: int) -> numpy.ndarray:
    """Even-odd fill: each upright edge flips everything to its right."""
    flips = numpy.zeros((height, width + 1), int)
    corners, at = numpy.array(mask.polygon).reshape(-1, 2).astype(int), 0
    for count in mask.ring_sizes:
        ring = corners[at : at + count]
        at += count
        for (x, y), (x2, y2) in zip(ring, numpy.roll(ring, -1, axis=0)):
            if x == x2:
                flips[min(y, y2) : max(y, y2), x] += 1
    return (numpy.cumsum(flips, axis=1)[:, :width] % 2 * 255).astype(
        numpy.uint8
    )
