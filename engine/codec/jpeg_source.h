// libjpeg's side of reading: bytes from memory, and what the library reports
// sorted into harmless notes and damage to the pixels.
// Owns: nothing. Thread-safety: compatible; one object per decode.
// Included by jpeg_*.cc only, because it brings the library's header along.
//
// The library leaves an error by longjmp to Guarded, so nothing that it may
// jump over has a destructor: callbacks and steps use plain values only.
#ifndef ENGINE_CODEC_JPEG_SOURCE_H_
#define ENGINE_CODEC_JPEG_SOURCE_H_

#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "engine/codec/jpeg_header.h"
#include "engine/codec/jpeg_library.h"

namespace preprocd {

// What stopped or spoilt a decode.
enum class JpegDamage : uint8_t {
  kNone,
  kTruncated,
  kCorrupt,
  kTooManyScans,
  kNoMemory,
};

class JpegSource {
 public:
  static constexpr char kNoEndNote[] =
      "JPEG has no EOI marker; its pixels are complete";
  // Stray bytes before a marker that are taken for a sloppy writer, not for
  // damage; cameras put up to 15 before restart markers.
  static constexpr int kMaxStrayBytes = 16;

  JpegSource() = default;
  JpegSource(const JpegSource&) = delete;
  JpegSource& operator=(const JpegSource&) = delete;
  ~JpegSource() { Close(); }

  // Makes a library decoder that reads `bytes`. When `strict`, the first
  // damage ends the decode. False on failure (damage() says why).
  bool Open(std::span<const std::byte> bytes, const JpegHeader& header,
            bool strict);
  void Close();

  jpeg_decompress_struct& library() { return library_; }

  // Runs `step`, which may call the library; false when the library (or a
  // strict decode) left it by an error. `step` must not own anything.
  bool Guarded(absl::FunctionRef<void()> step);

  // From here on stray bytes are judged as part of the pixel data. Called
  // inside a step, when the header has been read.
  void BeginScans();
  bool has_several_scans() const { return several_scans_; }

  // Notes what is missing of a file of several scans, which are all read
  // before the first row comes out.
  void CheckScansComplete();
  // True when the decode ended as it should; notes a file that was cut where
  // nothing else tells. Called behind the last row.
  bool Finish(const JpegHeader& header);

  // What to answer when damage() is not kNone or the decode failed. `height`
  // is the picture's.
  absl::Status DamageStatus(int height) const;

  // Marks damage that the caller found. The first one counts.
  void NoteDamage(JpegDamage damage, const char* message);

  JpegDamage damage() const { return damage_; }
  const char* damage_message() const { return message_.data(); }
  // Stored rows before the damage, when the file has one scan.
  int rows_before_damage() const { return rows_before_damage_; }
  // True when the file ended before its EOI marker.
  bool ended() const { return ended_; }
  // Sentences about what was odd but harmless.
  void AppendNotes(std::vector<std::string>& notes) const;

 private:
  static JpegSource& Of(j_common_ptr library);
  static void OnError(j_common_ptr library);
  static void OnMessage(j_common_ptr library, int level);
  static void OnOutput(j_common_ptr) {}
  static void OnInit(j_decompress_ptr) {}
  static boolean OnFill(j_decompress_ptr library);
  static void OnSkip(j_decompress_ptr library, long count);
  static void OnProgress(j_common_ptr library);
  static boolean OnRestart(j_decompress_ptr library);

  [[noreturn]] void Leave();
  void Classify(j_common_ptr library);
  int RowsSoFar() const;

  jpeg_decompress_struct library_ = {};
  jpeg_error_mgr errors_ = {};
  jpeg_source_mgr source_ = {};
  jpeg_progress_mgr progress_ = {};
  jpeg_marker_parser_method read_restart_ = nullptr;  // the library's own
  jmp_buf jump_ = {};
  bool open_ = false;
  bool strict_ = true;
  bool in_scans_ = false;
  bool several_scans_ = false;
  bool ended_ = false;
  JpegDamage damage_ = JpegDamage::kNone;
  int rows_before_damage_ = 0;
  std::array<char, JMSG_LENGTH_MAX> message_ = {};
  // Pieces of the file in order; more than one when its height is replaced.
  std::array<std::span<const std::byte>, 3> pieces_ = {};
  size_t next_piece_ = 0;
  std::array<std::byte, 2> height_ = {};
  // Notes.
  int stray_places_ = 0;
  bool odd_adobe_transform_ = false;
  bool odd_scan_parameters_ = false;
};

}  // namespace preprocd

#endif  // ENGINE_CODEC_JPEG_SOURCE_H_
