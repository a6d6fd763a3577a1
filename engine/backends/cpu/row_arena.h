// Memory for the staged rows of one band: handed out in order, all given back
// at once, kept by the thread for its next band.
// Owns: its blocks. Thread-safety: compatible; one per thread.
// Limits: grows to the largest sum of one band, which the renderers bound.
#ifndef ENGINE_BACKENDS_CPU_ROW_ARENA_H_
#define ENGINE_BACKENDS_CPU_ROW_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace preprocd {

class RowArena {
 public:
  // Gives everything back; pointers handed out before are invalid.
  void Reset();

  // `count` values, aligned to 64 bytes and readable (not initialised) for
  // 128 bytes behind their end. Valid until Reset.
  template <typename T>
  T* Take(size_t count) {
    return reinterpret_cast<T*>(TakeBytes(count * sizeof(T)));
  }

  // Bytes held, handed out or not.
  size_t capacity_bytes() const { return capacity_bytes_; }

 private:
  struct Block {
    std::unique_ptr<std::byte[]> bytes;
    size_t size = 0;
  };
  std::byte* TakeBytes(size_t size);

  std::vector<Block> blocks_;
  size_t block_ = 0;  // the one being handed out
  size_t used_ = 0;   // bytes of it
  size_t capacity_bytes_ = 0;
};

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_CPU_ROW_ARENA_H_
