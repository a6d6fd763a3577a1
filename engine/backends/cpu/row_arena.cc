#include "engine/backends/cpu/row_arena.h"

#include <algorithm>

namespace preprocd {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kPadding = 128;
constexpr size_t kMinBlockBytes = size_t{64} << 10;

}  // namespace

void RowArena::Reset() {
  block_ = 0;
  used_ = 0;
}

std::byte* RowArena::TakeBytes(size_t size) {
  const size_t needed =
      (size + kPadding + kAlignment - 1) / kAlignment * kAlignment;
  while (block_ < blocks_.size() &&
         used_ + needed + kAlignment > blocks_[block_].size) {
    ++block_;
    used_ = 0;
  }
  if (block_ == blocks_.size()) {
    Block block;
    block.size = std::max(kMinBlockBytes, needed + kAlignment);
    block.bytes = std::make_unique<std::byte[]>(block.size);
    capacity_bytes_ += block.size;
    blocks_.push_back(std::move(block));
  }
  std::byte* base = blocks_[block_].bytes.get();
  const auto address = reinterpret_cast<uintptr_t>(base + used_);
  const size_t skip = (kAlignment - address % kAlignment) % kAlignment;
  std::byte* result = base + used_ + skip;
  used_ += skip + needed;
  return result;
}

}  // namespace preprocd
