#include "engine/backends/cpu/row_arena.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace preprocd {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kPadding = 128;
constexpr size_t kMinBlockBytes = size_t{64} << 10;

}  // namespace

void RowArena::Reset() {
  if (blocks_.size() > 1) {
    const size_t size = std::bit_ceil(taken_ + kAlignment);
    blocks_.clear();
    capacity_bytes_ = 0;
    AddBlock(size);
  }
  block_ = 0;
  used_ = 0;
  taken_ = 0;
}

void RowArena::AddBlock(size_t size) {
  Block block;
  block.size = size;
  block.bytes = std::make_unique<std::byte[]>(size);
  capacity_bytes_ += size;
  blocks_.push_back(std::move(block));
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
    AddBlock(std::max(kMinBlockBytes, needed + kAlignment));
  }
  std::byte* base = blocks_[block_].bytes.get();
  const auto address = reinterpret_cast<uintptr_t>(base + used_);
  const size_t skip = (kAlignment - address % kAlignment) % kAlignment;
  std::byte* result = base + used_ + skip;
  used_ += skip + needed;
  taken_ += skip + needed;
  return result;
}

}  // namespace preprocd
