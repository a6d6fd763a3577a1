#include "engine/memory/buffer_release.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace preprocd {
namespace {

// Never freed: buffers may outlive static destructors.
struct Observers {
  std::mutex mutex;
  std::vector<BufferReleaseObserver*> list;           // guarded by mutex
  std::map<std::pair<uint64_t, uint64_t>, int> open;  // guarded by mutex
};
Observers& TheObservers() {
  static Observers& observers = *new Observers;
  return observers;
}

}  // namespace

void AddBufferReleaseObserver(BufferReleaseObserver* observer) {
  Observers& observers = TheObservers();
  const std::lock_guard lock(observers.mutex);
  observers.list.push_back(observer);
}

void RemoveBufferReleaseObserver(BufferReleaseObserver* observer) {
  Observers& observers = TheObservers();
  const std::lock_guard lock(observers.mutex);
  std::erase(observers.list, observer);
}

void NoteBufferMade(const BufferIdentity& identity) {
  Observers& observers = TheObservers();
  const std::lock_guard lock(observers.mutex);
  ++observers.open[{identity.device, identity.inode}];
}

void NoteBufferReleased(const BufferIdentity& identity) {
  Observers& observers = TheObservers();
  const std::lock_guard lock(observers.mutex);
  const auto found = observers.open.find({identity.device, identity.inode});
  if (found == observers.open.end() || --found->second > 0) return;
  observers.open.erase(found);
  for (BufferReleaseObserver* observer : observers.list) {
    observer->OnBufferReleased(identity);
  }
}

}  // namespace preprocd
