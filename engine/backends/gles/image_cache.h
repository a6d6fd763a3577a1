// Which imported image belongs to which memory: least recently used out
// first. No GL in here: what an entry owns is the template's business.
// Thread-safety: compatible (one per worker).
// Limits: the capacity given to the constructor; a full cache drops its
// oldest entry before it takes a new one.
#ifndef ENGINE_BACKENDS_GLES_IMAGE_CACHE_H_
#define ENGINE_BACKENDS_GLES_IMAGE_CACHE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/memory/buffer.h"

namespace preprocd {

// Everything that makes one import differ from another. Identity is the
// kernel's, so a descriptor that is sent again finds its image and a recycled
// descriptor of other memory does not.
struct ImageKey {
  BufferIdentity identity;
  uint64_t offset_bytes = 0;
  uint64_t stride_bytes = 0;
  // A second plane in other memory or at another place; zeros when none.
  BufferIdentity second_identity;
  uint64_t second_offset_bytes = 0;
  uint64_t second_stride_bytes = 0;
  int width = 0;   // texels
  int height = 0;  // texels
  uint32_t fourcc = 0;
  uint64_t modifier = 0;
  uint32_t colour_hints = 0;  // of external images
  bool operator==(const ImageKey&) const = default;
};

struct ImageCacheCounts {
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t evictions = 0;
};

template <typename Image>
class ImageCache {
 public:
  // REQUIRES: capacity >= 1. Memory for the entries is taken here.
  explicit ImageCache(size_t capacity) : capacity_(capacity) {
    PREPROCD_CHECK(capacity >= 1);
    entries_.reserve(capacity);
  }

  // The image of `key`, valid until the next call of Insert or Forget; null
  // when there is none.
  Image* Find(const ImageKey& key) {
    for (Entry& entry : entries_) {
      if (entry.key == key) {
        entry.used = ++clock_;
        ++counts_.hits;
        return &entry.image;
      }
    }
    ++counts_.misses;
    return nullptr;
  }

  // REQUIRES: Find(key) gave null.
  Image& Insert(const ImageKey& key, Image image) {
    if (entries_.size() == capacity_) {
      const auto oldest = std::min_element(
          entries_.begin(), entries_.end(),
          [](const Entry& a, const Entry& b) { return a.used < b.used; });
      entries_.erase(oldest);
      ++counts_.evictions;
    }
    entries_.push_back({key, std::move(image), ++clock_});
    return entries_.back().image;
  }

  // Drops every image of `identity`; returns how many.
  size_t Forget(const BufferIdentity& identity) {
    return std::erase_if(entries_, [&identity](const Entry& entry) {
      return entry.key.identity == identity ||
             entry.key.second_identity == identity;
    });
  }

  void Clear() { entries_.clear(); }
  size_t size() const { return entries_.size(); }
  const ImageCacheCounts& counts() const { return counts_; }

 private:
  struct Entry {
    ImageKey key;
    Image image;
    uint64_t used = 0;
  };
  const size_t capacity_;
  std::vector<Entry> entries_;
  uint64_t clock_ = 0;
  ImageCacheCounts counts_;
};

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_GLES_IMAGE_CACHE_H_
