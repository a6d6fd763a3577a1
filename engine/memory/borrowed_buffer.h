// Mapped memory of somebody else in the shape of a Buffer, so that one mapping
// can serve several accesses: mapping it again costs nothing and ending an
// access writes nothing back.
// Owns: nothing; the memory must stay mapped while this object lives.
// Thread-safety: safe; two writers of the same bytes are the caller's race.
#ifndef ENGINE_MEMORY_BORROWED_BUFFER_H_
#define ENGINE_MEMORY_BORROWED_BUFFER_H_

#include <cstddef>
#include <span>

#include "engine/memory/buffer.h"

namespace preprocd {

class BorrowedBuffer : public Buffer {
 public:
  // `access` is what the memory was mapped for. The identity is the memory's
  // address, so that two of the same memory are the same buffer.
  BorrowedBuffer(std::span<std::byte> bytes, Access access);
  // -1: there is no descriptor of this access.
  int fd() const override { return -1; }
  absl::StatusOr<Mapping> Map(Access access) override;

 private:
  absl::Status EndAccess(Mapping& mapping, bool write_back) override;

  const std::span<std::byte> bytes_;
};

}  // namespace preprocd

#endif  // ENGINE_MEMORY_BORROWED_BUFFER_H_
