// Memory for the staged rows of one band: handed out in order, all given back
// at once, kept by the thread for its next band.
// Owns: its blocks. Thread-safety: compatible; one per thread.
// Limits: between bands it holds the largest sum of one band so far, rounded up
// to a power of two, and while one outgrows that at most as much again; the
// renderers bound what a band takes.
#ifndef ENGINE_BACKENDS_CPU_ROW_ARENA_H_
#define ENGINE_BACKENDS_CPU_ROW_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace preprocd {

class RowArena {
 public:
  // Gives everything back; pointers handed out before are invalid. Blocks that
  // a band had to add become one, so that sizes that grow a little each time
  // leave nothing behind.
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
  void AddBlock(size_t size);

  std::vector<Block> blocks_;
  size_t block_ = 0;  // the one being handed out
  size_t used_ = 0;   // bytes of it
  size_t taken_ = 0;  // bytes handed out since Reset
  size_t capacity_bytes_ = 0;
};

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_CPU_ROW_ARENA_H_
