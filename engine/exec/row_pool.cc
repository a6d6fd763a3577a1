#include "engine/exec/row_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace preprocd {
namespace {

// A wake-up through the kernel takes as long as a small picture: threads that
// just worked, and callers whose last ranges are elsewhere, look around for
// this many pauses (some 20 microseconds) before they sleep.
constexpr int kSpinPauses = 400;
// More ranges than threads, so that a thread that comes late takes fewer.
constexpr int kRangesPerThread = 4;

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

// One ParallelRows call; lives on its caller's stack.
struct Call {
  const absl::FunctionRef<void(int, int)>* work = nullptr;
  int rows = 0;
  int step = 0;
  int next = 0;     // first row not taken yet
  int running = 0;  // ranges taken and not finished
  // True when nothing is left; read without the mutex while spinning.
  std::atomic<bool> finished{false};
  Call* next_call = nullptr;

  bool has_work() const { return next < rows; }
};

thread_local bool inside_pool_work = false;

}  // namespace

struct RowPool::State {
  std::mutex mutex;
  std::condition_variable work_ready;
  std::condition_variable range_done;
  Call* calls = nullptr;  // intrusive list, so that a call allocates nothing
  std::atomic<uint32_t> posted{0};  // calls so far, or the end
  bool stopping = false;
  int thread_count = 1;
  std::vector<std::thread> threads;

  Call* FindWork() const {
    for (Call* call = calls; call != nullptr; call = call->next_call) {
      if (call->has_work()) return call;
    }
    return nullptr;
  }

  void Unlink(Call* call) {
    for (Call** link = &calls; *link != nullptr; link = &(*link)->next_call) {
      if (*link == call) {
        *link = call->next_call;
        return;
      }
    }
  }

  // Takes one range of `call` and runs it with the mutex released.
  void RunRange(Call& call, std::unique_lock<std::mutex>& lock) {
    const int begin = call.next;
    const int end = std::min(call.rows, begin + call.step);
    call.next = end;
    ++call.running;
    lock.unlock();
    inside_pool_work = true;
    (*call.work)(begin, end);
    inside_pool_work = false;
    lock.lock();
    if (--call.running == 0 && !call.has_work()) {
      call.finished.store(true, std::memory_order_release);
      range_done.notify_all();
    }
  }

  void RunThread() {
    std::unique_lock<std::mutex> lock(mutex);
    while (!stopping) {
      Call* call = FindWork();
      if (call != nullptr) {
        RunRange(*call, lock);
      } else if (!SpinForWork(lock)) {
        work_ready.wait(lock, [this] { return stopping || FindWork(); });
      }
    }
  }

  // Looks for a new call with the mutex released; true when one came.
  bool SpinForWork(std::unique_lock<std::mutex>& lock) {
    const uint32_t seen = posted.load(std::memory_order_relaxed);
    lock.unlock();
    bool came = false;
    for (int i = 0; i < kSpinPauses && !came; ++i) {
      Pause();
      came = posted.load(std::memory_order_relaxed) != seen;
    }
    lock.lock();
    return came;
  }
};

RowPool::RowPool(int threads) : state_(std::make_unique<State>()) {
  state_->thread_count = std::max(1, threads);
  for (int i = 1; i < state_->thread_count; ++i) {
    state_->threads.emplace_back(
        [state = state_.get()] { state->RunThread(); });
  }
}

RowPool::~RowPool() {
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    state_->stopping = true;
    ++state_->posted;
  }
  state_->work_ready.notify_all();
  for (std::thread& thread : state_->threads) thread.join();
}

int RowPool::threads() const { return state_->thread_count; }

void RowPool::ParallelRows(int rows, int min_rows,
                           absl::FunctionRef<void(int, int)> work) {
  if (rows <= 0) return;
  const int threads = state_->thread_count;
  const int ranges = threads * kRangesPerThread;
  const int step =
      std::max(std::max(1, min_rows), (rows + ranges - 1) / ranges);
  if (threads == 1 || step >= rows || inside_pool_work) {
    work(0, rows);
    return;
  }
  Call call;
  call.work = &work;
  call.rows = rows;
  call.step = step;
  std::unique_lock<std::mutex> lock(state_->mutex);
  call.next_call = state_->calls;
  state_->calls = &call;
  ++state_->posted;
  const int helpers = (rows + step - 1) / step - 1;
  if (helpers == 1) {
    state_->work_ready.notify_one();
  } else {
    state_->work_ready.notify_all();
  }
  while (call.has_work()) state_->RunRange(call, lock);
  if (call.running != 0) {
    lock.unlock();
    for (int i = 0; i < kSpinPauses; ++i) {
      if (call.finished.load(std::memory_order_acquire)) break;
      Pause();
    }
    // The last worker is done with `call` once the mutex is free.
    lock.lock();
  }
  state_->range_done.wait(lock, [&call] { return call.running == 0; });
  state_->Unlink(&call);
}

}  // namespace preprocd
