#include "engine/codec/jpeg_source.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/error_detail.h"
#include "engine/base/limits.h"
#include "engine/codec/decode_status.h"

namespace preprocd {
namespace {

// What the library reads behind the end of the file.
constexpr JOCTET kEndOfImage[] = {0xFF, JPEG_EOI};

}  // namespace

bool JpegSource::Open(std::span<const std::byte> bytes,
                      const JpegHeader& header, bool strict) {
  Close();
  strict_ = strict;
  in_scans_ = several_scans_ = ended_ = false;
  damage_ = JpegDamage::kNone;
  rows_before_damage_ = stray_places_ = 0;
  odd_adobe_transform_ = odd_scan_parameters_ = false;
  message_[0] = '\0';
  next_piece_ = 0;
  pieces_ = {bytes};
  if (header.height_from_dnl) {
    height_ = {static_cast<std::byte>(header.height >> 8),
               static_cast<std::byte>(header.height)};
    pieces_ = {bytes.first(header.height_offset), std::span(height_),
               bytes.subspan(header.height_offset + height_.size())};
  }
  library_.err = jpeg_std_error(&errors_);
  errors_.error_exit = OnError;
  errors_.emit_message = OnMessage;
  errors_.output_message = OnOutput;
  library_.client_data = this;
  source_.init_source = OnInit;
  source_.fill_input_buffer = OnFill;
  source_.skip_input_data = OnSkip;
  source_.resync_to_restart = jpeg_resync_to_restart;
  source_.term_source = OnInit;
  source_.next_input_byte = nullptr;
  source_.bytes_in_buffer = 0;
  progress_.progress_monitor = OnProgress;
  open_ = true;
  return Guarded([this] {
    jpeg_create_decompress(&library_);
    library_.src = &source_;
    library_.progress = &progress_;
    read_restart_ = library_.marker->read_restart_marker;
    library_.marker->read_restart_marker = OnRestart;
  });
}

void JpegSource::Close() {
  if (open_) jpeg_destroy_decompress(&library_);
  open_ = false;
}

bool JpegSource::Guarded(absl::FunctionRef<void()> step) {
  if (setjmp(jump_) != 0) return false;
  step();
  return true;
}

void JpegSource::BeginScans() {
  several_scans_ = jpeg_has_multiple_scans(&library_) != FALSE;
  in_scans_ = true;
}

void JpegSource::CheckScansComplete() {
  if (!several_scans_) return;
  for (int c = 0; c < library_.num_components; ++c) {
    // The library takes a component's table when its first scan begins.
    bool seen = library_.comp_info[c].quant_table != nullptr;
    bool complete = seen;
    if (library_.progressive_mode && library_.coef_bits != nullptr) {
      const int* bits = library_.coef_bits[c];
      seen = seen && bits[0] >= 0;
      complete = std::all_of(bits, bits + DCTSIZE2,
                             [](int precision) { return precision == 0; });
    }
    // A file with its end may leave refinement out; one without was cut.
    if (ended_ && !complete) {
      NoteDamage(JpegDamage::kTruncated, "scans are missing");
    } else if (!seen) {
      NoteDamage(JpegDamage::kCorrupt, "a component has no data");
    }
  }
}

bool JpegSource::Finish(const JpegHeader& header) {
  const bool finished = Guarded([this] {
    jpeg_finish_decompress(&library_);
    // See OnRestart; here for the end marker.
    if (library_.marker->discarded_bytes != 0) ++stray_places_;
  });
  // Arithmetic decoding takes zeros behind the end without a word, so a file
  // without its end marker cannot be told from one that was cut.
  if (ended_ && header.arithmetic) {
    NoteDamage(JpegDamage::kTruncated, "no EOI marker");
  }
  return finished;
}

absl::Status JpegSource::DamageStatus(int height) const {
  const auto with_rows = [&](absl::string_view what) {
    return absl::StrCat("JPEG ", what, ", ", rows_before_damage_, " of ",
                        height, " rows are good (", message_.data(), ")");
  };
  switch (damage_) {
    case JpegDamage::kTruncated:
      return BadImage(ErrorReason::kImageTruncated, with_rows("ends early"));
    case JpegDamage::kTooManyScans:
      return ImageTooLarge("JPEG scans", kMaxJpegScans + 1, kMaxJpegScans);
    case JpegDamage::kNoMemory:
      return absl::ResourceExhaustedError("no memory to decode the JPEG");
    case JpegDamage::kCorrupt:
    case JpegDamage::kNone:
      break;
  }
  return BadImage(ErrorReason::kImageCorrupt, with_rows("is damaged"));
}

void JpegSource::NoteDamage(JpegDamage damage, const char* message) {
  if (damage_ != JpegDamage::kNone) return;
  damage_ = damage;
  rows_before_damage_ = RowsSoFar();
  strncpy(message_.data(), message, message_.size() - 1);
}

void JpegSource::AppendNotes(std::vector<std::string>& notes) const {
  if (ended_ && damage_ == JpegDamage::kNone) {
    notes.push_back(kNoEndNote);
  }
  if (stray_places_ > 0) {
    notes.push_back(absl::StrCat("JPEG has stray bytes before at least ",
                                 stray_places_,
                                 " of its markers; they were skipped"));
  }
  if (odd_adobe_transform_) {
    notes.push_back("JPEG has an unknown Adobe colour transform");
  }
  if (odd_scan_parameters_) {
    notes.push_back(
        "JPEG has progressive scan parameters in a sequential "
        "scan; they were ignored");
  }
}

JpegSource& JpegSource::Of(j_common_ptr library) {
  return *static_cast<JpegSource*>(library->client_data);
}

void JpegSource::Leave() { longjmp(jump_, 1); }

int JpegSource::RowsSoFar() const {
  // Without a scan there are none; of several scans only all together make a
  // row.
  if (!in_scans_ || several_scans_) return 0;
  const int rows = static_cast<int>(library_.input_iMCU_row) *
                   library_.max_v_samp_factor * DCTSIZE;
  // The last one may need chroma from the row below it.
  const int below = library_.max_v_samp_factor > 1 && rows > 0 ? 1 : 0;
  return std::min(rows - below, static_cast<int>(library_.image_height));
}

void JpegSource::OnError(j_common_ptr library) {
  JpegSource& self = Of(library);
  if (self.damage_ == JpegDamage::kNone) {
    std::array<char, JMSG_LENGTH_MAX> message = {};
    library->err->format_message(library, message.data());
    const bool memory = library->err->msg_code == JERR_OUT_OF_MEMORY;
    self.NoteDamage(memory        ? JpegDamage::kNoMemory
                    : self.ended_ ? JpegDamage::kTruncated
                                  : JpegDamage::kCorrupt,
                    message.data());
  }
  self.Leave();
}

void JpegSource::OnMessage(j_common_ptr library, int level) {
  // Not negative: trace messages.
  if (level < 0) Of(library).Classify(library);
}

void JpegSource::Classify(j_common_ptr library) {
  switch (library->err->msg_code) {
    case JWRN_ADOBE_XFORM:
      odd_adobe_transform_ = true;
      return;
    case JWRN_NOT_SEQUENTIAL:
      odd_scan_parameters_ = true;
      return;
    case JWRN_JFIF_MAJOR:
      return;
    case JWRN_EXTRANEOUS_DATA:
      if (!in_scans_ || library->err->msg_parm.i[0] <= kMaxStrayBytes) {
        ++stray_places_;
        return;
      }
      break;
    default:
      break;
  }
  if (damage_ == JpegDamage::kNone) {
    std::array<char, JMSG_LENGTH_MAX> message = {};
    library->err->format_message(library, message.data());
    NoteDamage(ended_ ? JpegDamage::kTruncated : JpegDamage::kCorrupt,
               message.data());
  }
  if (strict_) Leave();
}

boolean JpegSource::OnFill(j_decompress_ptr library) {
  JpegSource& self = Of(reinterpret_cast<j_common_ptr>(library));
  while (self.next_piece_ < self.pieces_.size()) {
    const std::span<const std::byte> piece = self.pieces_[self.next_piece_++];
    if (piece.empty()) continue;
    self.source_.next_input_byte =
        reinterpret_cast<const JOCTET*>(piece.data());
    self.source_.bytes_in_buffer = piece.size();
    return TRUE;
  }
  self.ended_ = true;
  self.source_.next_input_byte = kEndOfImage;
  self.source_.bytes_in_buffer = sizeof(kEndOfImage);
  return TRUE;
}

void JpegSource::OnSkip(j_decompress_ptr library, long count) {
  JpegSource& self = Of(reinterpret_cast<j_common_ptr>(library));
  if (count <= 0) return;
  auto left = static_cast<size_t>(count);
  while (left > self.source_.bytes_in_buffer) {
    if (self.ended_) return;
    left -= self.source_.bytes_in_buffer;
    OnFill(library);
  }
  if (self.ended_) return;
  self.source_.next_input_byte += left;
  self.source_.bytes_in_buffer -= left;
}

// Bytes that were already in the bit buffer when their marker came up are
// dropped without a message, and counted to the next place that has one.
boolean JpegSource::OnRestart(j_decompress_ptr library) {
  JpegSource& self = Of(reinterpret_cast<j_common_ptr>(library));
  if (library->unread_marker != 0 && library->marker->discarded_bytes != 0) {
    ++self.stray_places_;
    library->marker->discarded_bytes = 0;
  }
  return self.read_restart_(library);
}

void JpegSource::OnProgress(j_common_ptr library) {
  JpegSource& self = Of(library);
  if (self.library_.input_scan_number <= kMaxJpegScans) return;
  self.damage_ = JpegDamage::kTooManyScans;  // outweighs damage to pixels
  self.Leave();
}

}  // namespace preprocd
