#include "engine/backends/cpu/pixel_kernels.h"

#include <cmath>
#include <cstring>

#include "engine/backends/cpu/fixed_taps.h"
#include "engine/backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/pixel_kernels.cc"
// clang-format off
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "engine/backends/cpu/vector_blocks-inl.h"
// clang-format on

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
namespace preprocd::HWY_NAMESPACE {
namespace {
void WritePixelsT(const PixelInput&, size_t, const PixelOutput&) {
  NoVectorKernels();
}
}  // namespace
}  // namespace preprocd::HWY_NAMESPACE
#else

HWY_BEFORE_NAMESPACE();
namespace preprocd::HWY_NAMESPACE {
namespace {

struct Pixels {
  ByteVec r, g, b, a;
};

// Which pixel a lane of a Pixels vector holds: memory order, or the grouped
// order that packed pixels are interleaved from (vector_blocks-inl.h).
enum class Order : uint8_t { kMemory, kGrouped };

template <Order kOrder>
HWY_INLINE ByteVec Load8(const void* row, size_t i) {
  const auto v = hn::LoadU(Bytes(), static_cast<const uint8_t*>(row) + i);
  return kOrder == Order::kGrouped ? Group(v) : v;
}

// How two word vectors become bytes.
enum class Packing : uint8_t { kBlocks, kOrdered, kGrouped };

template <int kShift, Packing kPacking>
HWY_INLINE ByteVec ToBytes(WordVec lower, WordVec upper) {
  const auto a = hn::ShiftRight<kShift>(lower);
  const auto b = hn::ShiftRight<kShift>(upper);
  if (kPacking == Packing::kBlocks) return PackBlocks(a, b);
  return kPacking == Packing::kOrdered ? PackOrdered(a, b) : PackGrouped(a, b);
}

// Chroma's part of R, G and B.
struct ChromaTerms {
  WordVec r, g, b;
};
HWY_INLINE ChromaTerms TermsOf(const FixedYuv& k, WordVec u, WordVec v) {
  const Words d;
  return {hn::MulFixedPoint15(v, hn::Set(d, k.vr)),
          hn::Add(hn::MulFixedPoint15(u, hn::Set(d, k.ug)),
                  hn::MulFixedPoint15(v, hn::Set(d, k.vg))),
          hn::MulFixedPoint15(u, hn::Set(d, k.ub))};
}

HWY_INLINE WordVec LumaOf(const FixedYuv& k, WordVec y) {
  const Words d;
  return hn::Add(hn::MulFixedPoint15(y, hn::Set(d, k.y)), hn::Set(d, k.bias));
}

template <int kShift, Packing kPacking>
HWY_INLINE Pixels Combine(WordVec y0, WordVec y1, const ChromaTerms& c0,
                          const ChromaTerms& c1) {
  const auto channel = [&](WordVec t0, WordVec t1) HWY_ATTR {
    return ToBytes<kShift, kPacking>(hn::SaturatedAdd(y0, t0),
                                     hn::SaturatedAdd(y1, t1));
  };
  return {channel(c0.r, c1.r), channel(c0.g, c1.g), channel(c0.b, c1.b),
          hn::Set(Bytes(), 255)};
}

// A source loads kByteLanes pixels from pixel `i` on; `Copy` brings `count`
// pixels (fewer than kByteLanes) from `i` on into memory that may be read
// whole.
struct Buffer {
  alignas(64) uint8_t bytes[8 * kByteLanes] = {};
};

HWY_INLINE const void* CopyRow(const void* row, size_t offset, size_t size,
                               uint8_t* to) {
  memcpy(to, static_cast<const uint8_t*>(row) + offset, size);
  return to;
}

struct YuvSource {
  const PixelInput& in;
  template <Order kOrder>
  HWY_INLINE Pixels Load(size_t i) const {
    const auto flip = hn::Set(Bytes(), 0x80);
    const auto y = hn::Xor(Load8<kOrder>(in.rows[0], i), flip);
    const auto u = hn::Xor(Load8<kOrder>(in.rows[1], i), flip);
    const auto v = hn::Xor(Load8<kOrder>(in.rows[2], i), flip);
    const auto c0 = TermsOf(in.yuv, CenteredLower(u), CenteredLower(v));
    const auto c1 = TermsOf(in.yuv, CenteredUpper(u), CenteredUpper(v));
    return Combine<6, Packing::kBlocks>(LumaOf(in.yuv, CenteredLower(y)),
                                        LumaOf(in.yuv, CenteredUpper(y)), c0,
                                        c1);
  }
  PixelInput Copy(size_t i, size_t count, Buffer& to) const {
    PixelInput copy = in;
    for (size_t c = 0; c < 3; ++c) {
      copy.rows[c] = CopyRow(in.rows[c], i, count, to.bytes + c * kByteLanes);
    }
    return copy;
  }
};

// Half-width chroma: terms once per sample, then each lane twice.
template <int kShift>
HWY_INLINE Pixels FromHalf(const FixedYuv& k, ByteVec y_flipped, WordVec u,
                           WordVec v) {
  const Words d;
  const ChromaTerms c = TermsOf(k, u, v);
  const ChromaTerms c0 = {hn::InterleaveLower(c.r, c.r),
                          hn::InterleaveLower(c.g, c.g),
                          hn::InterleaveLower(c.b, c.b)};
  const ChromaTerms c1 = {hn::InterleaveUpper(d, c.r, c.r),
                          hn::InterleaveUpper(d, c.g, c.g),
                          hn::InterleaveUpper(d, c.b, c.b)};
  return Combine<kShift, Packing::kBlocks>(LumaOf(k, CenteredLower(y_flipped)),
                                           LumaOf(k, CenteredUpper(y_flipped)),
                                           c0, c1);
}

template <bool kVFirst>
struct HalfPackedSource {
  const PixelInput& in;
  template <Order kOrder>
  HWY_INLINE Pixels Load(size_t i) const {
    const Words d;
    const auto flip = hn::Set(Bytes(), 0x80);
    const auto y = hn::Xor(Load8<kOrder>(in.rows[0], i), flip);
    const auto pairs =
        hn::BitCast(d, hn::Xor(Load8<kOrder>(in.rows[1], i), flip));
    const auto low = hn::ShiftLeft<8>(pairs);
    const auto high = hn::And(pairs, hn::Set(d, static_cast<int16_t>(0xff00)));
    return FromHalf<6>(in.yuv, y, kVFirst ? high : low, kVFirst ? low : high);
  }
  PixelInput Copy(size_t i, size_t count, Buffer& to) const {
    PixelInput copy = in;
    copy.rows[0] = CopyRow(in.rows[0], i, count, to.bytes);
    copy.rows[1] =
        CopyRow(in.rows[1], i, (count + 1) / 2 * 2, to.bytes + kByteLanes);
    return copy;
  }
};

struct HalfPlanarSource {
  const PixelInput& in;
  template <Order kOrder>
  HWY_INLINE WordVec Chroma(size_t row, size_t i) const {
    const Words d;
    const hn::Half<Bytes> half;
    auto wide = hn::PromoteTo(
        d, hn::LoadU(half, static_cast<const uint8_t*>(in.rows[row]) + i / 2));
    // Two samples are four bytes and stand for four pixels.
    if (kOrder == Order::kGrouped) {
      wide = hn::BitCast(d, Group(hn::BitCast(Bytes(), wide)));
    }
    return hn::ShiftLeft<8>(hn::Sub(wide, hn::Set(d, 128)));
  }
  template <Order kOrder>
  HWY_INLINE Pixels Load(size_t i) const {
    const auto y =
        hn::Xor(Load8<kOrder>(in.rows[0], i), hn::Set(Bytes(), 0x80));
    return FromHalf<6>(in.yuv, y, Chroma<kOrder>(1, i), Chroma<kOrder>(2, i));
  }
  PixelInput Copy(size_t i, size_t count, Buffer& to) const {
    PixelInput copy = in;
    copy.rows[0] = CopyRow(in.rows[0], i, count, to.bytes);
    for (size_t c = 1; c < 3; ++c) {
      copy.rows[c] = CopyRow(in.rows[c], i / 2, (count + 1) / 2,
                             to.bytes + c * kByteLanes);
    }
    return copy;
  }
};

template <int kShift>
struct StagedSource {
  const PixelInput& in;
  HWY_INLINE WordVec Word(size_t row, size_t i) const {
    const Words d;
    const auto v = hn::LoadU(d, static_cast<const int16_t*>(in.rows[row]) + i);
    if (kShift == 6) return v;
    // Lobes overshoot 0..255.
    constexpr int16_t kOne = 1 << kLobeFraction;
    return hn::Min(hn::Max(v, hn::Set(d, -128 * kOne)), hn::Set(d, 127 * kOne));
  }
  template <Order kOrder>
  HWY_INLINE Pixels Load(size_t i) const {
    const size_t j = i + kByteLanes / 2;
    const auto c0 = TermsOf(in.yuv, Word(1, i), Word(2, i));
    const auto c1 = TermsOf(in.yuv, Word(1, j), Word(2, j));
    constexpr Packing kPacking =
        kOrder == Order::kGrouped ? Packing::kGrouped : Packing::kOrdered;
    return Combine<kShift, kPacking>(LumaOf(in.yuv, Word(0, i)),
                                     LumaOf(in.yuv, Word(0, j)), c0, c1);
  }
  PixelInput Copy(size_t i, size_t count, Buffer& to) const {
    PixelInput copy = in;
    for (size_t c = 0; c < 3; ++c) {
      copy.rows[c] =
          CopyRow(in.rows[c], 2 * i, 2 * count, to.bytes + c * 2 * kByteLanes);
    }
    return copy;
  }
};

struct PlanesSource {
  const PixelInput& in;
  template <Order kOrder>
  HWY_INLINE Pixels Load(size_t i) const {
    return {Load8<kOrder>(in.rows[0], i), Load8<kOrder>(in.rows[1], i),
            Load8<kOrder>(in.rows[2], i),
            in.rows[3] == nullptr ? hn::Set(Bytes(), 255)
                                  : Load8<kOrder>(in.rows[3], i)};
  }
  PixelInput Copy(size_t i, size_t count, Buffer& to) const {
    PixelInput copy = in;
    for (size_t c = 0; c < 4; ++c) {
      if (in.rows[c] == nullptr) continue;
      copy.rows[c] = CopyRow(in.rows[c], i, count, to.bytes + c * kByteLanes);
    }
    return copy;
  }
};

template <bool kBgr>
struct RgbxSource {
  const PixelInput& in;
  template <Order kOrder>
  HWY_INLINE Pixels Load(size_t i) const {
    Pixels p;
    hn::LoadInterleaved4(Bytes(),
                         static_cast<const uint8_t*>(in.rows[0]) + 4 * i,
                         kBgr ? p.b : p.r, p.g, kBgr ? p.r : p.b, p.a);
    if (!in.has_alpha) p.a = hn::Set(Bytes(), 255);
    return p;
  }
  PixelInput Copy(size_t i, size_t count, Buffer& to) const {
    PixelInput copy = in;
    copy.rows[0] = CopyRow(in.rows[0], 4 * i, 4 * count, to.bytes);
    return copy;
  }
};

// A sink stores kByteLanes pixels; `Rest` gives the same sink with memory
// that may be written whole, and `Deliver` takes `count` pixels from there.
struct PlanesSink {
  static constexpr Order kOrder = Order::kMemory;
  // Bytes that Store may write behind its pixels.
  static constexpr size_t kOverhang = 0;
  PixelOutput out;
  HWY_INLINE void Store(size_t i, const Pixels& p, ByteVec flip) const {
    const Bytes d;
    hn::StoreU(hn::Xor(p.r, flip), d, out.rows[0] + i);
    hn::StoreU(hn::Xor(p.g, flip), d, out.rows[1] + i);
    hn::StoreU(hn::Xor(p.b, flip), d, out.rows[2] + i);
    if (out.rows[3] != nullptr) hn::StoreU(p.a, d, out.rows[3] + i);
  }
  PlanesSink Rest(Buffer& to) const {
    PlanesSink rest = *this;
    for (size_t c = 0; c < 4; ++c) {
      if (out.rows[c] != nullptr) rest.out.rows[c] = to.bytes + c * kByteLanes;
    }
    return rest;
  }
  void Deliver(size_t i, size_t count, const Buffer& from) const {
    for (size_t c = 0; c < 4; ++c) {
      if (out.rows[c] == nullptr) continue;
      memcpy(out.rows[c] + i, from.bytes + c * kByteLanes, count);
    }
  }
};

template <size_t kBytes>
struct OneRowSink {
  static constexpr size_t kPixelBytes = kBytes;
  PixelOutput out;
  void Deliver(size_t i, size_t count, const Buffer& from) const {
    memcpy(out.rows[0] + kBytes * i, from.bytes, kBytes * count);
  }
};

template <bool kBgr>
struct Packed3Sink : OneRowSink<3> {
  static constexpr Order kOrder = Order::kGrouped;
  static constexpr size_t kOverhang = kDenseOverhang;
  HWY_INLINE void Store(size_t i, const Pixels& p, ByteVec flip) const {
    const auto first = hn::Xor(kBgr ? p.b : p.r, flip);
    const auto last = hn::Xor(kBgr ? p.r : p.b, flip);
    StoreDense(InterleaveGrouped(first, hn::Xor(p.g, flip), last, last),
               out.rows[0] + 3 * i);
  }
  Packed3Sink Rest(Buffer& to) const {
    Packed3Sink rest = *this;
    rest.out.rows[0] = to.bytes;
    return rest;
  }
};

template <bool kBgr>
struct Packed4Sink : OneRowSink<4> {
  static constexpr Order kOrder = Order::kGrouped;
  static constexpr size_t kOverhang = 0;
  HWY_INLINE void Store(size_t i, const Pixels& p, ByteVec flip) const {
    const auto first = hn::Xor(kBgr ? p.b : p.r, flip);
    const auto last = hn::Xor(kBgr ? p.r : p.b, flip);
    const PixelVectors v =
        InterleaveGrouped(first, hn::Xor(p.g, flip), last, p.a);
    uint8_t* to = out.rows[0] + 4 * i;
    for (int k = 0; k < 4; ++k, to += kByteLanes) {
      hn::StoreU(v.v[k], Bytes(), to);
    }
  }
  Packed4Sink Rest(Buffer& to) const {
    Packed4Sink rest = *this;
    rest.out.rows[0] = to.bytes;
    return rest;
  }
};

struct GreySink : OneRowSink<1> {
  static constexpr Order kOrder = Order::kMemory;
  static constexpr size_t kOverhang = 0;
  HWY_INLINE void Store(size_t i, const Pixels& p, ByteVec flip) const {
    const Words d;
    const auto sign = hn::Set(Bytes(), 0x80);
    // BT.601 in Q15; the three sum to one.
    const auto luma = [&](WordVec r, WordVec g, WordVec b) HWY_ATTR {
      const auto sum =
          hn::Add(hn::Add(hn::MulFixedPoint15(r, hn::Set(d, 9798)),
                          hn::MulFixedPoint15(g, hn::Set(d, 19234))),
                  hn::MulFixedPoint15(b, hn::Set(d, 3736)));
      return hn::Add(hn::ShiftRight<8>(hn::SaturatedAdd(sum, hn::Set(d, 128))),
                     hn::Set(d, 128));
    };
    const auto r = hn::Xor(p.r, sign);
    const auto g = hn::Xor(p.g, sign);
    const auto b = hn::Xor(p.b, sign);
    const auto y =
        PackBlocks(luma(CenteredLower(r), CenteredLower(g), CenteredLower(b)),
                   luma(CenteredUpper(r), CenteredUpper(g), CenteredUpper(b)));
    hn::StoreU(hn::Xor(y, flip), Bytes(), out.rows[0] + i);
  }
  GreySink Rest(Buffer& to) const {
    GreySink rest = *this;
    rest.out.rows[0] = to.bytes;
    return rest;
  }
};

template <class Source, class Sink>
void Write(const PixelInput& in, size_t width, Sink sink) {
  const auto flip = hn::Set(Bytes(), sink.out.flip);
  const PixelInput local = in;
  const Source source{local};
  size_t i = 0;
  constexpr size_t kMargin = (Sink::kOverhang + 2) / 3;
  for (; i + kByteLanes + kMargin <= width; i += kByteLanes) {
    sink.Store(i, source.template Load<Sink::kOrder>(i), flip);
  }
  while (i < width) {
    const size_t count = width - i < kByteLanes ? width - i : kByteLanes;
    Buffer inputs;
    Buffer outputs;
    const PixelInput copy = source.Copy(i, count, inputs);
    sink.Rest(outputs).Store(0, Source{copy}.template Load<Sink::kOrder>(0),
                             flip);
    sink.Deliver(i, count, outputs);
    i += count;
  }
}

// Pixels that keep their layout: no need to take channels apart.
template <int kBytes, bool kSwap>
struct RgbxCopy {
  const uint8_t* in;
  uint8_t* out;
  ByteVec alpha;  // OR
  ByteVec flip;   // XOR
  static constexpr size_t kPixels = kByteLanes / 4;

  HWY_INLINE void Store(size_t i, const uint8_t* from, uint8_t* to) const {
    alignas(16) static constexpr uint8_t kSwapped[16] = {
        2, 1, 0, 3, 6, 5, 4, 7, 10, 9, 8, 11, 14, 13, 12, 15};
    const Bytes d;
    auto v = hn::LoadU(d, from + 4 * i);
    if (kSwap) v = hn::TableLookupBytes(v, hn::LoadDup128(d, kSwapped));
    v = hn::Xor(hn::Or(v, alpha), flip);
    hn::StoreU(kBytes == 3 ? DropFourth(v) : v, d, to + kBytes * i);
  }

  void Run(size_t width) const {
    size_t i = 0;
    constexpr size_t kMargin = kBytes == 3 ? (kPixels + 2) / 3 : 0;
    for (; i + kPixels + kMargin <= width; i += kPixels) Store(i, in, out);
    while (i < width) {
      const size_t count = width - i < kPixels ? width - i : kPixels;
      alignas(64) uint8_t from[kByteLanes] = {};
      alignas(64) uint8_t to[kByteLanes];
      memcpy(from, in + 4 * i, 4 * count);
      Store(0, from, to);
      memcpy(out + kBytes * i, to, kBytes * count);
      i += count;
    }
  }
};

void WriteRgbxPacked(const PixelInput& in, size_t width,
                     const PixelOutput& out) {
  const hn::Repartition<uint32_t, Bytes> d32;
  const auto alpha =
      hn::BitCast(Bytes(), hn::Set(d32, in.has_alpha ? 0U : 0xff000000U));
  const auto flip = hn::BitCast(Bytes(), hn::Set(d32, out.flip * 0x010101U));
  const auto* from = static_cast<const uint8_t*>(in.rows[0]);
  const bool bgr_out =
      out.layout == PixelLayout::kBgr || out.layout == PixelLayout::kBgra;
  const bool swap = in.bgr != bgr_out;
  uint8_t* to = out.rows[0];
  if (out.layout == PixelLayout::kRgb || out.layout == PixelLayout::kBgr) {
    swap ? RgbxCopy<3, true>{from, to, alpha, flip}.Run(width)
         : RgbxCopy<3, false>{from, to, alpha, flip}.Run(width);
  } else {
    swap ? RgbxCopy<4, true>{from, to, alpha, flip}.Run(width)
         : RgbxCopy<4, false>{from, to, alpha, flip}.Run(width);
  }
}

void WriteRgbx(const PixelInput& in, size_t width, const PixelOutput& out) {
  if (out.layout == PixelLayout::kPlanes) {
    return in.bgr ? Write<RgbxSource<true> >(in, width, PlanesSink{out})
                  : Write<RgbxSource<false> >(in, width, PlanesSink{out});
  }
  if (out.layout == PixelLayout::kGrey) {
    return in.bgr ? Write<RgbxSource<true> >(in, width, GreySink{{out}})
                  : Write<RgbxSource<false> >(in, width, GreySink{{out}});
  }
  WriteRgbxPacked(in, width, out);
}

template <class Source>
void WriteFrom(const PixelInput& in, size_t width, const PixelOutput& out) {
  switch (out.layout) {
    case PixelLayout::kPlanes:
      return Write<Source>(in, width, PlanesSink{out});
    case PixelLayout::kRgb:
      return Write<Source>(in, width, Packed3Sink<false>{{out}});
    case PixelLayout::kBgr:
      return Write<Source>(in, width, Packed3Sink<true>{{out}});
    case PixelLayout::kRgba:
      return Write<Source>(in, width, Packed4Sink<false>{{out}});
    case PixelLayout::kBgra:
      return Write<Source>(in, width, Packed4Sink<true>{{out}});
    case PixelLayout::kGrey:
      return Write<Source>(in, width, GreySink{{out}});
  }
}

void WritePixelsT(const PixelInput& in, size_t width, const PixelOutput& out) {
  switch (in.source) {
    case PixelSource::kYuv:
      return WriteFrom<YuvSource>(in, width, out);
    case PixelSource::kYuvHalfPacked:
      return in.v_first ? WriteFrom<HalfPackedSource<true> >(in, width, out)
                        : WriteFrom<HalfPackedSource<false> >(in, width, out);
    case PixelSource::kYuvHalfPlanar:
      return WriteFrom<HalfPlanarSource>(in, width, out);
    case PixelSource::kYuvStaged:
      return in.yuv.shift == 6 ? WriteFrom<StagedSource<6> >(in, width, out)
                               : WriteFrom<StagedSource<4> >(in, width, out);
    case PixelSource::kPlanes:
      return WriteFrom<PlanesSource>(in, width, out);
    case PixelSource::kRgbx:
      return WriteRgbx(in, width, out);
  }
}

}  // namespace
}  // namespace preprocd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // fallback targets

#if HWY_ONCE
namespace preprocd {

HWY_EXPORT(WritePixelsT);

FixedYuv MakeFixedYuv(const YuvToRgbCoefficients& exact, int fraction) {
  const auto q15 = [](double v) {
    return static_cast<int16_t>(std::lround(v * (1 << 13)));
  };
  FixedYuv k;
  k.y = q15(exact.y_scale);
  k.vr = q15(exact.vr);
  k.ug = q15(-exact.ug);
  k.vg = q15(-exact.vg);
  k.ub = q15(exact.ub);
  k.shift = fraction - 2;
  k.bias = static_cast<int16_t>(
      std::lround((128 - exact.y_offset) * exact.y_scale * (1 << k.shift)) +
      (1 << (k.shift - 1)));
  return k;
}

PixelInput AdvancePixels(const PixelInput& in, size_t x) {
  PixelInput result = in;
  for (size_t i = 0; i < in.rows.size(); ++i) {
    if (in.rows[i] == nullptr) continue;
    size_t bytes = x;
    if (in.source == PixelSource::kYuvStaged) bytes = 2 * x;
    if (in.source == PixelSource::kRgbx) bytes = 4 * x;
    if (in.source == PixelSource::kYuvHalfPlanar && i > 0) bytes = x / 2;
    result.rows[i] = static_cast<const uint8_t*>(in.rows[i]) + bytes;
  }
  return result;
}

void WritePixels(const PixelInput& in, size_t width, const PixelOutput& out) {
  HWY_DYNAMIC_DISPATCH(WritePixelsT)(in, width, out);
}

}  // namespace preprocd
#endif  // HWY_ONCE
