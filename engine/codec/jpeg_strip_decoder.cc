#include "engine/codec/jpeg_strip_decoder.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/codec/jpeg_baseline_decoder.h"
#include "engine/codec/jpeg_library_planes.h"
#include "engine/codec/jpeg_scan_budget.h"
#include "engine/codec/scratch_bytes.h"

namespace preprocd {
namespace {

constexpr int kBlock = 8;
constexpr int kMidGrey = 128;

int CeilDiv(int value, int divisor) { return (value + divisor - 1) / divisor; }

}  // namespace

JpegPlane JpegPlaneOf(const JpegHeader& header, int index, int shrink) {
  const JpegComponent& component =
      header.components[static_cast<size_t>(index)];
  const int luma_block = kBlock / shrink;
  const int h = header.max_h * luma_block;
  const int v = header.max_v * luma_block;
  JpegPlane plane;
  plane.block_size = luma_block;
  while (plane.block_size < kBlock &&
         h % (component.h * plane.block_size * 2) == 0 &&
         v % (component.v * plane.block_size * 2) == 0) {
    plane.block_size *= 2;
  }
  plane.x_ratio = h / (component.h * plane.block_size);
  plane.y_ratio = v / (component.v * plane.block_size);
  plane.width = CeilDiv(header.width * component.h * plane.block_size,
                        header.max_h * kBlock);
  plane.height = CeilDiv(header.height * component.v * plane.block_size,
                         header.max_v * kBlock);
  const int coded = CeilDiv(header.width * component.h, header.max_h);
  plane.coded_width = CeilDiv(coded, kBlock) * plane.block_size;
  plane.strip_rows = component.v * plane.block_size;
  return plane;
}

class JpegStripDecoder::Session {
 public:
  absl::Status Begin(std::span<const std::byte> bytes, const JpegHeader& header,
                     const DecodeOptions& options);
  absl::StatusOr<JpegStrip> Next(const JpegStripTargets& targets);
  absl::Status Finish(DecodeResult& result);
  absl::Status Defer(int strips) { return baseline_.Defer(strips); }
  void Complete(int strip) { baseline_.Complete(strip); }

  int plane_count() const { return header_.component_count; }
  const JpegPlane& plane(int index) const {
    return planes_[static_cast<size_t>(index)];
  }
  int strip_count() const { return strip_count_; }
  int next_strip() const { return next_strip_; }

 private:
  bool Continues(bool done);
  absl::Status OpenLibrary();
  bool SkipWithLibrary();
  absl::Status NextByLibrary(const JpegStripTargets& targets);
  absl::Status FinishLibrary(DecodeResult& result);
  void FillGrey(const JpegStripTargets& targets) const;
  JpegStrip TakeStrip();

  JpegHeader header_;
  DecodeOptions options_;
  std::array<JpegPlane, kMaxJpegPlanes> planes_ = {};
  int strip_count_ = 0;
  int next_strip_ = 0;
  // A lenient decode whose rest is grey.
  bool gave_up_ = false;
  // Exactly one of them decodes at a time: the second when the first meets
  // something odd, from the strip where that was.
  JpegBaselineDecoder baseline_;
  bool by_library_ = false;
  JpegScanFacts facts_;
  JpegLibraryPlanes library_;
  std::span<const std::byte> bytes_;
  ScratchBytes dropped_;
};

// What a step of the library means for the decode as a whole.
bool JpegStripDecoder::Session::Continues(bool done) {
  const JpegDamage damage = library_.source().damage();
  if (done && (options_.lenient || damage == JpegDamage::kNone)) return true;
  const bool usable =
      damage == JpegDamage::kTruncated || damage == JpegDamage::kCorrupt;
  gave_up_ = options_.lenient && usable && next_strip_ > 0;
  return gave_up_;
}

absl::Status JpegStripDecoder::Session::Begin(std::span<const std::byte> bytes,
                                              const JpegHeader& header,
                                              const DecodeOptions& options) {
  header_ = header;
  options_ = options;
  for (int i = 0; i < header.component_count; ++i) {
    planes_[static_cast<size_t>(i)] = JpegPlaneOf(header, i, options.shrink);
  }
  strip_count_ = CeilDiv(header.height, header.max_v * kBlock);
  next_strip_ = 0;
  gave_up_ = false;
  bytes_ = bytes;
  by_library_ = false;
  library_.Close();
  if (baseline_.Open(bytes, header_, options.shrink)) return absl::OkStatus();
  return OpenLibrary();
}

absl::Status JpegStripDecoder::Session::OpenLibrary() {
  by_library_ = true;
  ASSIGN_OR_RETURN(facts_, CheckJpegScanBudget(bytes_, header_));
  size_t widest = 0;
  for (const JpegPlane& plane : planes_) {
    widest = std::max(widest, static_cast<size_t>(plane.coded_width));
  }
  RETURN_IF_ERROR(dropped_.Reserve(widest));
  if (Continues(library_.Open(bytes_, header_, options_) &&
                SkipWithLibrary())) {
    return absl::OkStatus();
  }
  return library_.source().DamageStatus(header_.height);
}

// All rows in one place: nobody looks at them.
bool JpegStripDecoder::Session::SkipWithLibrary() {
  JpegStripTargets nowhere;
  nowhere.fill({dropped_.data(), 0});
  for (int i = 0; i < next_strip_; ++i) {
    if (!library_.Next(nowhere)) return false;
  }
  return true;
}

absl::Status JpegStripDecoder::Session::NextByLibrary(
    const JpegStripTargets& targets) {
  JpegStripTargets all = targets;
  for (PlaneTarget& target : all) {
    if (target.data == nullptr) target = {dropped_.data(), 0};
  }
  if (!gave_up_ && !Continues(library_.Next(all))) {
    return library_.source().DamageStatus(header_.height);
  }
  if (gave_up_) FillGrey(targets);
  return absl::OkStatus();
}

void JpegStripDecoder::Session::FillGrey(
    const JpegStripTargets& targets) const {
  for (size_t c = 0; c < static_cast<size_t>(plane_count()); ++c) {
    if (targets[c].data == nullptr) continue;
    for (int y = 0; y < planes_[c].strip_rows; ++y) {
      memset(targets[c].data + static_cast<size_t>(y) * targets[c].stride_bytes,
             kMidGrey, static_cast<size_t>(planes_[c].coded_width));
    }
  }
}

JpegStrip JpegStripDecoder::Session::TakeStrip() {
  JpegStrip strip;
  strip.first_row = next_strip_ * header_.max_v * kBlock;
  strip.rows =
      std::min(header_.max_v * kBlock, header_.height - strip.first_row);
  for (size_t c = 0; c < static_cast<size_t>(plane_count()); ++c) {
    const int first = next_strip_ * planes_[c].strip_rows;
    strip.planes[c] = {
        first, std::clamp(planes_[c].height - first, 0, planes_[c].strip_rows)};
  }
  ++next_strip_;
  return strip;
}

absl::StatusOr<JpegStrip> JpegStripDecoder::Session::Next(
    const JpegStripTargets& targets) {
  PREPROCD_CHECK(next_strip_ < strip_count_);
  if (!by_library_ && !baseline_.Next(targets)) {
    RETURN_IF_ERROR(OpenLibrary());
  }
  if (by_library_) RETURN_IF_ERROR(NextByLibrary(targets));
  return TakeStrip();
}

absl::Status JpegStripDecoder::Session::Finish(DecodeResult& result) {
  PREPROCD_CHECK(next_strip_ == strip_count_);
  result.rows_good = header_.height;
  if (!by_library_) {
    const JpegBaselineDecoder::End end = baseline_.Finish();
    if (end == JpegBaselineDecoder::End::kNoMarker) {
      result.warnings.push_back(JpegSource::kNoEndNote);
    }
    if (end != JpegBaselineDecoder::End::kOdd) return absl::OkStatus();
    RETURN_IF_ERROR(OpenLibrary());
  }
  return FinishLibrary(result);
}

absl::Status JpegStripDecoder::Session::FinishLibrary(DecodeResult& result) {
  absl::Status status;
  const bool good = gave_up_ || Continues(library_.Finish());
  const JpegSource& source = library_.source();
  source.AppendNotes(result.warnings);
  facts_.AppendNotes(header_, result.warnings);
  if (!good || source.damage() != JpegDamage::kNone) {
    status = source.DamageStatus(header_.height);
    result.rows_good = source.rows_before_damage();
  }
  if (good && !status.ok()) {
    result.warnings.push_back(std::string(status.message()));
    status = absl::OkStatus();
  }
  library_.Close();
  return status;
}

JpegStripDecoder::JpegStripDecoder() : session_(std::make_unique<Session>()) {}
JpegStripDecoder::~JpegStripDecoder() = default;

bool JpegStripDecoder::Supports(const JpegHeader& header) {
  return header.component_count == 1 || header.component_count == 3;
}

absl::Status JpegStripDecoder::Begin(std::span<const std::byte> bytes,
                                     const JpegHeader& header,
                                     const DecodeOptions& options) {
  PREPROCD_CHECK(Supports(header));
  return session_->Begin(bytes, header, options);
}

absl::Status JpegStripDecoder::Defer(int strips) {
  return session_->Defer(strips);
}

void JpegStripDecoder::Complete(int strip) { session_->Complete(strip); }

int JpegStripDecoder::plane_count() const { return session_->plane_count(); }

const JpegPlane& JpegStripDecoder::plane(int index) const {
  return session_->plane(index);
}

int JpegStripDecoder::strip_count() const { return session_->strip_count(); }

int JpegStripDecoder::next_strip() const { return session_->next_strip(); }

absl::StatusOr<JpegStrip> JpegStripDecoder::Next(
    const JpegStripTargets& targets) {
  return session_->Next(targets);
}

absl::Status JpegStripDecoder::Finish(DecodeResult& result) {
  return session_->Finish(result);
}

}  // namespace preprocd
