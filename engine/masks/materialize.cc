#include "engine/masks/materialize.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include "absl/strings/str_cat.h"
#include "engine/base/error_detail.h"

namespace preprocd {
namespace {

// Pixels whose packed prototypes stay in the first-level cache.
constexpr size_t kPackedPixels = 128;

void WriteRow(const MaskPlan& plan, const MaskRows::Row& row, size_t n,
              std::byte* out) {
  if (plan.values == MaskValues::kBinary) {
    ThresholdRow(row.a, row.b, row.w, n, reinterpret_cast<uint8_t*>(out));
  } else if (plan.dtype == DType::kU8) {
    SigmoidRow(row.a, row.b, row.w, n, reinterpret_cast<uint8_t*>(out));
  } else {
    SigmoidRow(row.a, row.b, row.w, n, reinterpret_cast<float*>(out));
  }
}

size_t ElementBytes(const MaskPlan& plan) {
  return plan.dtype == DType::kF32 ? sizeof(float) : 1;
}

void WriteMask(const MaskWorkspace& workspace, size_t i,
               const LogitPlane* plane, MaskScratch& scratch, std::byte* out) {
  const MaskPlan& plan = workspace.plan();
  const MaskPlacement& mask = plan.masks[i];
  const size_t element = ElementBytes(plan);
  const Rect area = ComputedArea(plan, i);
  out += mask.offset_bytes;
  const size_t stride = static_cast<size_t>(mask.bounds.width) * element;
  if (area != mask.bounds) {
    // In one piece, which needs no read of the old bytes; zeros mean 0 in
    // both element types.
    std::memset(out, 0, stride * static_cast<size_t>(mask.bounds.height));
  }
  std::byte* to = out + static_cast<size_t>(area.y - mask.bounds.y) * stride +
                  static_cast<size_t>(area.x - mask.bounds.x) * element;
  MaskRows rows(workspace, i, area, plane, scratch);
  const auto width = static_cast<size_t>(area.width);
  const int end = area.y + area.height;
  for (int y = area.y; y < end;) {
    const MaskRows::Row row = rows.At(y);
    int count = 1;
    if (plan.values == MaskValues::kBinary && row.w != 0) {
      count = RowsBetween(plan.y, y, end);
      ThresholdRows(row.a, row.b,
                    plan.y.fraction.data() + static_cast<size_t>(y),
                    static_cast<size_t>(count), width, stride,
                    reinterpret_cast<uint8_t*>(to));
    } else {
      WriteRow(plan, row, width, to);
    }
    y += count;
    to += static_cast<size_t>(count) * stride;
  }
}

// Masks [begin, end), as many swept at once as their logits fit.
void WriteMasks(const MaskWorkspace& workspace, int begin, int end,
                MaskScratch& scratch, std::byte* out) {
  constexpr int kAtOnce = 64;
  for (int first = begin; first < end;) {
    int last = std::min(first + kAtOnce, end);
    bool kept = false;
    while (!(kept = LayOutPlanes(workspace.plan(), first, last, kMaxSweptFloats,
                                 scratch.swept, scratch.planes)) &&
           last - first > 1) {
      last = first + (last - first) / 2;
    }
    if (kept) SweepLogits(workspace, first, scratch.planes, scratch);
    for (int i = first; i < last; ++i) {
      WriteMask(workspace, static_cast<size_t>(i),
                &scratch.planes[static_cast<size_t>(i - first)], scratch, out);
    }
    first = last;
  }
}

// Every mask needs every prototype pixel: a matrix product in blocks of
// pixels, each used for all masks while it is in the cache.
void WriteWholeBlock(const MaskWorkspace& workspace, size_t first, size_t n,
                     MaskScratch& scratch, std::byte* out) {
  constexpr int kRows = 4;
  const MaskPlan& plan = workspace.plan();
  const size_t element = ElementBytes(plan);
  const int count = static_cast<int>(plan.masks.size());
  PackPrototypes(workspace.prototypes(), first, n, kPackedPixels,
                 scratch.packed.data());
  for (int i = 0; i < count; i += kRows) {
    const int rows = std::min(kRows, count - i);
    LogitBlock(scratch.packed.data(), kPackedPixels, n, plan.channels,
               workspace.masks().data() + i, rows, scratch.block.data());
    for (int r = 0; r < rows; ++r) {
      const float* logits =
          scratch.block.data() + static_cast<size_t>(r) * kPackedPixels;
      WriteRow(plan, {logits, logits, 0}, n,
               out + plan.masks[static_cast<size_t>(i + r)].offset_bytes +
                   first * element);
    }
  }
}

void WriteWholePlanes(MaskWorkspace& workspace, std::byte* out, RowPool& pool) {
  const MaskPlan& plan = workspace.plan();
  const size_t pixels = static_cast<size_t>(plan.size.width) *
                        static_cast<size_t>(plan.size.height);
  const size_t blocks = (pixels + kPackedPixels - 1) / kPackedPixels;
  pool.ParallelRows(static_cast<int>(blocks), 8, [&](int begin, int end) {
    std::unique_ptr<MaskScratch> scratch = workspace.TakeScratch();
    const size_t packed =
        static_cast<size_t>(plan.channels) * kPackedPixels + kMaskRowPadding;
    if (scratch->packed.size() < packed) scratch->packed.resize(packed);
    const size_t block = 4 * kPackedPixels + kMaskRowPadding;
    if (scratch->block.size() < block) scratch->block.resize(block);
    for (int b = begin; b < end; ++b) {
      const size_t first = static_cast<size_t>(b) * kPackedPixels;
      WriteWholeBlock(workspace, first, std::min(kPackedPixels, pixels - first),
                      *scratch, out);
    }
    workspace.Return(std::move(scratch));
  });
}

// One stored score plane's row at output resolution.
class ClassRows {
 public:
  ClassRows(const MaskWorkspace& workspace, int channel)
      : workspace_(workspace) {
    const PrototypeTensor& scores = workspace.prototypes();
    const TensorQuantization& q = scores.quantization;
    const auto at = [channel](size_t entries) {
      return entries == 1 ? 0 : static_cast<size_t>(channel);
    };
    if (!q.scales.empty()) scale_ = q.scales[at(q.scales.size())];
    if (!q.zero_points.empty()) {
      bias_ = static_cast<float>(-q.zero_points[at(q.zero_points.size())]);
    }
    channel_ = static_cast<size_t>(channel);
  }

  void Compute(int row, MaskScratch& scratch, float* out) const {
    const PrototypeTensor& scores = workspace_.prototypes();
    const MaskPlan& plan = workspace_.plan();
    const auto width = static_cast<size_t>(scores.width);
    // One plane is a tensor of one channel.
    PrototypeTensor plane = scores;
    const FoldedCoefficients one = {&kOne, bias_, scale_};
    float* logits = plan.x.identity ? out : scratch.logits.data();
    const size_t first = static_cast<size_t>(row) * width;
    if (scores.channels_first) {
      const size_t bytes =
          TensorBytes(scores) / static_cast<size_t>(scores.channels);
      plane.data += channel_ * bytes;
      plane.channels = 1;
      LogitRow(plane, one, first, width, logits);
    } else {
      StridedRow(first, width, logits);
    }
    if (plan.x.identity) return;
    logits[width] = logits[width - 1];
    ExpandRow(logits, plan.x.tap.data(), plan.x.fraction.data(), 0,
              static_cast<size_t>(plan.size.width), out);
  }

 private:
  static constexpr float kOne = 1;

  template <typename T>
  void StridedRowOf(size_t first, size_t n, float* out) const {
    const auto channels = static_cast<size_t>(workspace_.prototypes().channels);
    const T* data = reinterpret_cast<const T*>(workspace_.prototypes().data);
    const T* p = data + first * channels + channel_;
    for (size_t i = 0; i < n; ++i, p += channels) {
      float value = 0;
      if constexpr (sizeof(T) == 2) {
        value = HalfToFloat(*p);
      } else {
        value = *p;
      }
      out[i] = (value + bias_) * scale_;
    }
  }

  void StridedRow(size_t first, size_t n, float* out) const {
    switch (workspace_.prototypes().dtype) {
      case DType::kF16:
        return StridedRowOf<uint16_t>(first, n, out);
      case DType::kI8:
        return StridedRowOf<int8_t>(first, n, out);
      default:
        return StridedRowOf<float>(first, n, out);
    }
  }

  const MaskWorkspace& workspace_;
  size_t channel_ = 0;
  float bias_ = 0;
  float scale_ = 1;
};

// Output rows [begin, end): for each row of two taps, every class in turn.
void WriteClassRows(const MaskWorkspace& workspace, int begin, int end,
                    MaskScratch& scratch, uint8_t* out) {
  const MaskPlan& plan = workspace.plan();
  const auto width = static_cast<size_t>(plan.size.width);
  scratch.Reserve(plan);
  const auto count = static_cast<size_t>(end - begin) * width;
  if (scratch.block.size() < count) scratch.block.resize(count);
  std::fill_n(scratch.block.begin(), count,
              -std::numeric_limits<float>::infinity());
  std::memset(out + static_cast<size_t>(begin) * width, 0, count);
  for (int c = 0; c < plan.channels; ++c) {
    const ClassRows rows(workspace, c);
    float* upper = scratch.upper.data();
    float* lower = scratch.lower.data();
    int upper_row = -1;
    int lower_row = -1;
    for (int y = begin; y < end; ++y) {
      const int tap = plan.y.tap[static_cast<size_t>(y)];
      const float fraction = plan.y.fraction[static_cast<size_t>(y)];
      if (tap != upper_row && tap == lower_row) {
        std::swap(upper, lower);
        std::swap(upper_row, lower_row);
      }
      if (tap != upper_row) {
        rows.Compute(tap, scratch, upper);
        upper_row = tap;
      }
      if (fraction != 0 && lower_row != tap + 1) {
        rows.Compute(tap + 1, scratch, lower);
        lower_row = tap + 1;
      }
      ArgmaxRow(upper, fraction != 0 ? lower : upper, fraction, width,
                static_cast<uint8_t>(c),
                scratch.block.data() + static_cast<size_t>(y - begin) * width,
                out + static_cast<size_t>(y) * width);
    }
  }
}

void WriteClasses(MaskWorkspace& workspace, uint8_t* out, RowPool& pool) {
  // Rows whose best scores are kept at once.
  constexpr int kBand = 16;
  const int height = workspace.plan().size.height;
  const int bands = (height + kBand - 1) / kBand;
  pool.ParallelRows(bands, 1, [&](int begin, int end) {
    std::unique_ptr<MaskScratch> scratch = workspace.TakeScratch();
    for (int b = begin; b < end; ++b) {
      WriteClassRows(workspace, b * kBand, std::min((b + 1) * kBand, height),
                     *scratch, out);
    }
    workspace.Return(std::move(scratch));
  });
}

}  // namespace

absl::Status MaterializeMasks(MaskWorkspace& workspace,
                              std::span<std::byte> out, RowPool& pool) {
  const MaskPlan& plan = workspace.plan();
  if (out.size() < plan.size_bytes) {
    return InvalidField(
        ErrorReason::kBufferTooSmall, "destination",
        absl::StrCat("destination: ", out.size(), " bytes of room < ",
                     plan.size_bytes, " of masks"));
  }
  if (plan.semantic) {
    WriteClasses(workspace, reinterpret_cast<uint8_t*>(out.data()), pool);
    return absl::OkStatus();
  }
  if (plan.extent == MaskExtent::kUncropped && plan.x.identity) {
    WriteWholePlanes(workspace, out.data(), pool);
    return absl::OkStatus();
  }
  pool.ParallelRows(
      static_cast<int>(plan.masks.size()), 1, [&](int begin, int end) {
        std::unique_ptr<MaskScratch> scratch = workspace.TakeScratch();
        WriteMasks(workspace, begin, end, *scratch, out.data());
        workspace.Return(std::move(scratch));
      });
  return absl::OkStatus();
}

void VisitMasks(
    MaskWorkspace& workspace,
    absl::FunctionRef<void(int mask, const Rect& bounds, const uint8_t* pixels)>
        visit) {
  const MaskPlan& plan = workspace.plan();
  std::unique_ptr<MaskScratch> scratch = workspace.TakeScratch();
  std::vector<uint8_t> pixels;
  if (plan.semantic) {
    std::vector<uint8_t> classes(static_cast<size_t>(plan.size_bytes));
    RowPool here(1);
    WriteClasses(workspace, classes.data(), here);
    pixels.resize(classes.size());
    for (int c = 0; c < plan.channels; ++c) {
      for (size_t i = 0; i < classes.size(); ++i) {
        pixels[i] = classes[i] == c ? 255 : 0;
      }
      visit(c, plan.masks[0].bounds, pixels.data());
    }
  }
  for (size_t i = 0; !plan.semantic && i < plan.masks.size(); ++i) {
    const Rect area = ComputedArea(plan, i);
    const auto width = static_cast<size_t>(area.width);
    pixels.resize(width * static_cast<size_t>(area.height));
    MaskRows rows(workspace, i, area, nullptr, *scratch);
    uint8_t* to = pixels.data();
    for (int y = area.y; y < area.y + area.height; ++y, to += width) {
      const MaskRows::Row row = rows.At(y);
      ThresholdRow(row.a, row.b, row.w, width, to);
    }
    visit(static_cast<int>(i), area, pixels.data());
  }
  workspace.Return(std::move(scratch));
}

}  // namespace preprocd
