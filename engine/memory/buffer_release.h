// Tells whoever keeps something derived from a file (a device's import of it,
// say) that the last buffer over that file is gone, so that it is not kept
// longer than its owners wanted. Private memory is not told about.
// Thread-safety: safe.
#ifndef ENGINE_MEMORY_BUFFER_RELEASE_H_
#define ENGINE_MEMORY_BUFFER_RELEASE_H_

#include "engine/memory/buffer.h"

namespace preprocd {

class BufferReleaseObserver {
 public:
  virtual ~BufferReleaseObserver() = default;
  // Called on the thread that drops the buffer, whatever that holds: must be
  // short, and must neither wait for work nor make or drop a buffer.
  virtual void OnBufferReleased(const BufferIdentity& identity) = 0;
};

void AddBufferReleaseObserver(BufferReleaseObserver* observer);
// Returns when no call of the observer runs any more.
void RemoveBufferReleaseObserver(BufferReleaseObserver* observer);

// For the buffers' constructors and destructors; observers are told when a
// file has as many of the one as of the other.
void NoteBufferMade(const BufferIdentity& identity);
void NoteBufferReleased(const BufferIdentity& identity);

}  // namespace preprocd

#endif  // ENGINE_MEMORY_BUFFER_RELEASE_H_
