#include "engine/backends/gles/gl_worker.h"

#include <epoxy/egl.h>
#include <epoxy/gl.h>
#include <fcntl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/gles/egl_display.h"
#include "engine/backends/gles/gl_context.h"
#include "engine/backends/gles/gl_renderer.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/base/unique_fd.h"

namespace preprocd {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Buffers that are forgotten while a job runs; beyond it all images go.
constexpr size_t kMaxForgotten = 256;

absl::Status Lost() {
  return GlFailure("the worker is lost: a job showed no progress");
}

}  // namespace

struct GlWorker::State {
  enum class SlotState : uint8_t { kFree, kHeld, kQueued, kRunning, kDone };
  enum class Task : uint8_t { kRender, kResize };
  // A slot with what only the thread and the protocol know.
  struct Work {
    Slot slot;
    SlotState state = SlotState::kFree;  // guarded by mutex
    Task task = Task::kRender;
    absl::Status status;
    uint64_t upload_capacity = 0;
    uint64_t result_capacity = 0;
    // Used by the thread only.
    SourceTextures textures;
    unsigned upload_buffer = 0;
    unsigned result_buffer = 0;
    std::vector<std::byte> upload_memory;
    std::vector<std::byte> result_memory;
  };

  void ThreadMain();
  absl::Status BringUp();
  void TearDown();
  void RunWork(Work& work);
  absl::Status RunRender(Work& work);
  absl::Status RunResize(Work& work);
  void MapForCaller(Work& work, bool result_is_read);
  void UnmapFromCaller(Work& work);
  int TakeDescriptor(const Work& work, int index);
  Work& WorkOf(Slot& wanted);
  absl::Status Await(Work& work, std::unique_lock<std::mutex>& lock,
                     milliseconds limit);
  absl::Status Execute(Work& work, Task task);

  GlWorkerOptions options;
  GlFeatures features;    // constant once ready
  RendererTraits traits;  // constant once ready
  std::thread thread;     // of the owner

  mutable std::mutex mutex;  // guards all that follows
  std::condition_variable wake_thread;
  std::condition_variable wake_callers;
  std::array<Work, kSlotsPerWorker> works;
  std::vector<size_t> queue;
  bool ready = false;
  absl::Status bring_up;
  bool stop = false;
  bool lost = false;
  bool exited = false;
  uint64_t finished = 0;
  std::vector<BufferIdentity> forgotten;
  bool forget_all = false;

  // Of the thread.
  const EglDisplayFacts* display = nullptr;
  std::unique_ptr<GlRenderer> renderer;
  std::vector<UniqueFd> duplicates;
  std::vector<BufferIdentity> forgetting;
};

// --- the thread ----------------------------------------------------------

absl::Status GlWorker::State::BringUp() {
  ASSIGN_OR_RETURN(display, OpenEglDisplay(options.settings));
  RETURN_IF_ERROR(MakeContextCurrent(*display));
  ASSIGN_OR_RETURN(features, QueryFeatures(*display));
  ProbeImports(*display, features);
  traits = ResolveTraits(features.renderer, options.settings);
  renderer = std::make_unique<GlRenderer>(
      *display, features, static_cast<size_t>(options.settings.cached_imports),
      *options.counters);
  duplicates.reserve(4 * kMaxPlanes);
  forgetting.reserve(kMaxForgotten);
  return absl::OkStatus();
}

void GlWorker::State::ThreadMain() {
  absl::Status brought_up = BringUp();
  std::unique_lock lock(mutex);
  ready = true;
  bring_up = std::move(brought_up);
  wake_callers.notify_all();
  while (bring_up.ok() && !lost) {
    wake_thread.wait(lock, [this] {
      return stop || lost || !queue.empty() || !forgotten.empty();
    });
    if (lost || (stop && queue.empty())) break;
    forgetting.swap(forgotten);
    const bool all = std::exchange(forget_all, false);
    if (!forgetting.empty()) {
      lock.unlock();
      if (all) renderer->ForgetAll();
      for (const BufferIdentity& identity : forgetting) {
        renderer->Forget(identity);
      }
      forgetting.clear();
      lock.lock();
    }
    if (queue.empty() || lost) continue;
    Work& work = works[queue.front()];
    queue.erase(queue.begin());
    work.state = SlotState::kRunning;
    lock.unlock();
    RunWork(work);
    lock.lock();
    work.state = SlotState::kDone;
    ++finished;
    wake_callers.notify_all();
  }
  exited = true;
  const bool clean = !lost && bring_up.ok();
  wake_callers.notify_all();
  lock.unlock();
  if (clean) {
    TearDown();
  } else {
    // A driver that failed is not asked to clean up.
    (void)renderer.release();
  }
}

// On the context's own thread, while the process lives on. Software drivers
// are torn down so that tests can make many; others have crashed in it.
void GlWorker::State::TearDown() {
  renderer.reset();
  const EGLContext context = eglGetCurrentContext();
  eglMakeCurrent(display->display, EGL_NO_SURFACE, EGL_NO_SURFACE,
                 EGL_NO_CONTEXT);
  if (features.software) eglDestroyContext(display->display, context);
  eglReleaseThread();
}

void GlWorker::State::RunWork(Work& work) {
  absl::Status status;
  {
    // A lost worker that held this has left it locked; workers made later
    // have another one.
    std::unique_lock<std::mutex> serial;
    if (traits.serialisation == GlSerialisation::kFull && options.serialiser) {
      serial = std::unique_lock(*options.serialiser);
    }
    status = work.task == Task::kResize ? RunResize(work) : RunRender(work);
  }
  if (!status.ok() && !IsImportRefusal(status)) {
    ++options.counters->failures;
    // What a failed job leaves behind must not reach the next one.
    TakeGlErrors();
    if (renderer->was_reset() ||
        ReadResetStatus(features) != ResetStatus::kNone) {
      ++options.counters->resets;
      ++options.counters->workers_lost;
      const std::lock_guard lock(mutex);
      lost = true;
    }
  }
  work.status = std::move(status);
}

int GlWorker::State::TakeDescriptor(const Work& work, int index) {
  const std::lock_guard lock(mutex);
  // After this the caller may be gone, and its descriptors with it.
  if (lost) return -1;
  UniqueFd copy(fcntl(work.slot.job.descriptors[static_cast<size_t>(index)],
                      F_DUPFD_CLOEXEC, 0));
  const int fd = copy.get();
  duplicates.push_back(std::move(copy));
  return fd;
}

absl::Status GlWorker::State::RunRender(Work& work) {
  UnmapFromCaller(work);
  StagingAccess staging;
  staging.upload_buffer = work.upload_buffer;
  staging.result_buffer = work.result_buffer;
  staging.upload = work.upload_memory.data();
  staging.result = work.result_memory.data();
  absl::Status status =
      renderer->Render(work.slot.job, work.textures, staging,
                       [&](int index) { return TakeDescriptor(work, index); });
  duplicates.clear();
  MapForCaller(work, status.ok());
  return status;
}

absl::Status GlWorker::State::RunResize(Work& work) {
  UnmapFromCaller(work);
  ++options.counters->staging_growths;
  if (traits.upload == GlTransfer::kMemory) {
    work.upload_memory = std::vector<std::byte>(work.upload_capacity);
    work.result_memory = std::vector<std::byte>(work.result_capacity);
  } else {
    const std::pair<unsigned*, uint64_t> buffers[] = {
        {&work.upload_buffer, work.upload_capacity},
        {&work.result_buffer, work.result_capacity}};
    for (const auto& [buffer, capacity] : buffers) {
      if (*buffer == 0) glGenBuffers(1, buffer);
      const bool upload = buffer == &work.upload_buffer;
      const GLenum target =
          upload ? GL_PIXEL_UNPACK_BUFFER : GL_PIXEL_PACK_BUFFER;
      glBindBuffer(target, *buffer);
      glBufferData(target, static_cast<GLsizeiptr>(capacity), nullptr,
                   upload ? GL_STREAM_DRAW : GL_STREAM_READ);
      glBindBuffer(target, 0);
    }
    const std::string error = TakeGlErrors();
    if (!error.empty()) {
      return GlFailure(absl::StrCat("staging of ", work.upload_capacity,
                                    " and ", work.result_capacity,
                                    " bytes: ", error));
    }
  }
  MapForCaller(work, false);
  return absl::OkStatus();
}

void GlWorker::State::UnmapFromCaller(Work& work) {
  if (work.upload_buffer != 0 && !work.slot.upload.empty()) {
    glBindBuffer(GL_PIXEL_UNPACK_BUFFER, work.upload_buffer);
    glUnmapBuffer(GL_PIXEL_UNPACK_BUFFER);
    glBindBuffer(GL_PIXEL_UNPACK_BUFFER, 0);
  }
  if (work.result_buffer != 0 && !work.slot.result.empty()) {
    glBindBuffer(GL_PIXEL_PACK_BUFFER, work.result_buffer);
    glUnmapBuffer(GL_PIXEL_PACK_BUFFER);
    glBindBuffer(GL_PIXEL_PACK_BUFFER, 0);
  }
  work.slot.upload = {};
  work.slot.result = {};
}

// The buffers stay mapped while callers may fill or read them.
void GlWorker::State::MapForCaller(Work& work, bool result_is_read) {
  if (work.upload_buffer == 0) {
    work.slot.upload = work.upload_memory;
    work.slot.result = work.result_memory;
    return;
  }
  const auto map = [](GLenum target, unsigned buffer, uint64_t bytes,
                      GLbitfield access) -> std::byte* {
    if (bytes == 0) return nullptr;
    glBindBuffer(target, buffer);
    void* address =
        glMapBufferRange(target, 0, static_cast<GLsizeiptr>(bytes), access);
    glBindBuffer(target, 0);
    return static_cast<std::byte*>(address);
  };
  std::byte* upload =
      map(GL_PIXEL_UNPACK_BUFFER, work.upload_buffer, work.upload_capacity,
          GL_MAP_WRITE_BIT | GL_MAP_INVALIDATE_BUFFER_BIT);
  if (upload != nullptr) work.slot.upload = {upload, work.upload_capacity};
  if (!result_is_read) return;
  const std::byte* result = map(GL_PIXEL_PACK_BUFFER, work.result_buffer,
                                work.result_capacity, GL_MAP_READ_BIT);
  if (result != nullptr) work.slot.result = {result, work.result_capacity};
}

// --- callers -------------------------------------------------------------

GlWorker::State::Work& GlWorker::State::WorkOf(Slot& wanted) {
  const auto found =
      std::find_if(works.begin(), works.end(),
                   [&](const Work& work) { return &work.slot == &wanted; });
  PREPROCD_CHECK(found != works.end());
  return *found;
}

// Waits until `work` is done. Progress of other jobs extends the wait of a
// queued one.
absl::Status GlWorker::State::Await(Work& work,
                                    std::unique_lock<std::mutex>& lock,
                                    milliseconds limit) {
  uint64_t seen = finished;
  bool running = false;
  Clock::time_point end = Clock::now() + limit;
  while (work.state != SlotState::kDone) {
    if (lost) return Lost();
    const bool in_time =
        wake_callers.wait_until(lock, end) != std::cv_status::timeout;
    if (work.state == SlotState::kDone) break;
    const bool started = work.state == SlotState::kRunning && !running;
    if (started || finished != seen) {
      running = work.state == SlotState::kRunning;
      seen = finished;
      end = Clock::now() + limit;
      continue;
    }
    if (in_time) continue;
    lost = true;
    ++options.counters->workers_lost;
    wake_callers.notify_all();
    wake_thread.notify_all();
    return Lost();
  }
  work.state = SlotState::kHeld;
  return std::move(work.status);
}

absl::Status GlWorker::State::Execute(Work& work, Task task) {
  std::unique_lock lock(mutex);
  if (lost) return Lost();
  work.task = task;
  work.state = SlotState::kQueued;
  queue.push_back(static_cast<size_t>(&work - works.data()));
  wake_thread.notify_one();
  const int64_t limit = task == Task::kRender
                            ? work.slot.job.stall_limit_ms
                            : int64_t{options.settings.stall_ms};
  return Await(work, lock, milliseconds(limit));
}

GlWorker::GlWorker(std::shared_ptr<State> state) : state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<GlWorker>> GlWorker::Start(
    const GlWorkerOptions& options) {
  auto state = std::make_shared<State>();
  state->options = options;
  state->queue.reserve(kSlotsPerWorker);
  state->forgotten.reserve(kMaxForgotten);
  state->thread = std::thread([state] { state->ThreadMain(); });
  ++options.counters->workers_started;
  std::unique_ptr<GlWorker> worker(new GlWorker(state));
  std::unique_lock lock(state->mutex);
  const bool answered = state->wake_callers.wait_for(
      lock, milliseconds(options.settings.stall_ms),
      [&] { return state->ready; });
  if (!answered) {
    state->lost = true;
    ++options.counters->workers_lost;
    return GlFailure(
        absl::StrCat("no context within ", options.settings.stall_ms, " ms"));
  }
  if (!state->bring_up.ok()) return state->bring_up;
  return worker;
}

GlWorker::~GlWorker() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
    state_->wake_thread.notify_all();
    if (state_->lost && !state_->exited) {
      state_->thread.detach();
      return;
    }
  }
  state_->thread.join();
}

const GlFeatures& GlWorker::features() const { return state_->features; }
const RendererTraits& GlWorker::traits() const { return state_->traits; }

bool GlWorker::lost() const {
  const std::lock_guard lock(state_->mutex);
  return state_->lost;
}

int GlWorker::load() const {
  const std::lock_guard lock(state_->mutex);
  return static_cast<int>(std::count_if(
      state_->works.begin(), state_->works.end(), [](const State::Work& work) {
        return work.state != State::SlotState::kFree;
      }));
}

absl::StatusOr<GlWorker::Slot*> GlWorker::Acquire() {
  std::unique_lock lock(state_->mutex);
  for (;;) {
    if (state_->lost) return Lost();
    for (State::Work& work : state_->works) {
      if (work.state == State::SlotState::kFree) {
        work.state = State::SlotState::kHeld;
        return &work.slot;
      }
    }
    // Whoever holds a slot is watched by its own wait, so this one ends.
    state_->wake_callers.wait(lock);
  }
}

absl::Status GlWorker::Reserve(Slot& slot, uint64_t upload_bytes,
                               uint64_t result_bytes) {
  State::Work& work = state_->WorkOf(slot);
  if (upload_bytes <= work.upload_capacity &&
      result_bytes <= work.result_capacity) {
    return absl::OkStatus();
  }
  const auto grown = [](uint64_t wanted, uint64_t had) {
    if (wanted <= had) return had;
    // Similar pictures share; large ones are taken as they are.
    return wanted > kMaxKeptStagingBytes ? wanted : std::bit_ceil(wanted);
  };
  work.upload_capacity = grown(upload_bytes, work.upload_capacity);
  work.result_capacity = grown(result_bytes, work.result_capacity);
  absl::Status status = state_->Execute(work, State::Task::kResize);
  if (!status.ok()) {
    work.upload_capacity = 0;
    work.result_capacity = 0;
  }
  return status;
}

absl::Status GlWorker::Run(Slot& slot) {
  return state_->Execute(state_->WorkOf(slot), State::Task::kRender);
}

void GlWorker::Release(Slot& slot) {
  State::Work& work = state_->WorkOf(slot);
  if (work.upload_capacity > kMaxKeptStagingBytes ||
      work.result_capacity > kMaxKeptStagingBytes) {
    work.upload_capacity = 0;
    work.result_capacity = 0;
    state_->Execute(work, State::Task::kResize).IgnoreError();
  }
  const std::lock_guard lock(state_->mutex);
  // A lost worker's slot stays its own.
  if (!state_->lost) work.state = State::SlotState::kFree;
  state_->wake_callers.notify_all();
}

void GlWorker::Forget(const BufferIdentity& identity) {
  const std::lock_guard lock(state_->mutex);
  if (state_->lost) return;
  if (state_->forgotten.size() == kMaxForgotten) {
    state_->forgotten.clear();
    state_->forget_all = true;
  }
  state_->forgotten.push_back(identity);
  state_->wake_thread.notify_one();
}

}  // namespace preprocd
