// The GL backend as a device: steady state, lost and reset workers, threads,
// descriptors. Faults are put into single GL entry points, which libepoxy
// keeps as pointers.
#include <epoxy/egl.h>
#include <epoxy/gl.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "engine/base/error_detail.h"
#include "engine/engine.h"
#include "tests/gl/gl_fixture.h"

namespace {
std::atomic<uint64_t> allocations = 0;
}  // namespace

// Counts every allocation of the program, the driver's C++ included.
void* operator new(size_t size) {
  ++allocations;
  if (void* memory = malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }

namespace preprocd {
namespace {

// Shorter than anybody wants to wait, longer than a driver compiles a shader.
constexpr int kStallMs = 1'500;

// Draws wait at this gate while it is closed; the real call follows.
class Gate {
 public:
  void Close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    closed_ = false;
    opened_.notify_all();
  }
  void Pass() {
    std::unique_lock lock(mutex_);
    waiting_ += closed_ ? 1 : 0;
    opened_.wait(lock, [this] { return !closed_; });
  }
  int waited() {
    const std::lock_guard lock(mutex_);
    return waiting_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool closed_ = false;
  int waiting_ = 0;
};

Gate& DrawGate() {
  static Gate& gate = *new Gate;
  return gate;
}
decltype(epoxy_glDrawArrays) real_draw_arrays = nullptr;
void GatedDrawArrays(GLenum mode, GLint first, GLsizei count) {
  DrawGate().Pass();
  real_draw_arrays(mode, first, count);
}

std::atomic<GLenum> reported_reset = GL_NO_ERROR;
GLenum ReportedReset() { return reported_reset.exchange(GL_NO_ERROR); }

class GlDeviceTest : public GlTest {
 protected:
  void TearDown() override {
    DrawGate().Open();
    if (real_draw_arrays != nullptr) epoxy_glDrawArrays = real_draw_arrays;
    if (real_reset_ != nullptr) epoxy_glGetGraphicsResetStatusEXT = real_reset_;
  }
  static void PutGate() {
    if (real_draw_arrays == nullptr) real_draw_arrays = epoxy_glDrawArrays;
    epoxy_glDrawArrays = GatedDrawArrays;
  }
  void PutResets() {
    real_reset_ = epoxy_glGetGraphicsResetStatusEXT;
    epoxy_glGetGraphicsResetStatusEXT = ReportedReset;
  }
  // nv12 -> rgba that a driver with imports does without a copy.
  void MakePair(int seed) {
    from_ = MakeGlPicture(PixelFormat::kNv12, DType::kU8, 64, 48);
    to_ = MakeGlPicture(PixelFormat::kRgba, DType::kU8, 32, 32);
    Paint(from_, static_cast<uint32_t>(seed));
    plan_ = Plan(from_, to_);
  }
  GlPicture from_;
  GlPicture to_;
  ConvertPlan plan_;

 private:
  decltype(epoxy_glGetGraphicsResetStatusEXT) real_reset_ = nullptr;
};

void ExpectSteady(const GlCounters& n, uint64_t uploads_per_convert,
                  absl::FunctionRef<void(int)> convert, int times) {
  const uint64_t imports = n.imports;
  const uint64_t refusals = n.import_refusals;
  const uint64_t uploads = n.uploads;
  const uint64_t programs = n.programs;
  const uint64_t tables = n.tables;
  const uint64_t textures = n.textures;
  const uint64_t growths = n.staging_growths;
  const uint64_t converts = n.converts;
  const uint64_t allocated = allocations;
  for (int i = 0; i < times; ++i) convert(i);
  EXPECT_EQ(allocations - allocated, 0u);
  EXPECT_EQ(n.converts - converts, static_cast<uint64_t>(times));
  EXPECT_EQ(n.imports - imports, 0u);
  EXPECT_EQ(n.import_refusals - refusals, 0u);
  EXPECT_EQ(n.uploads - uploads,
            uploads_per_convert * static_cast<uint64_t>(times));
  EXPECT_EQ(n.programs - programs, 0u);
  EXPECT_EQ(n.tables - tables, 0u);
  EXPECT_EQ(n.textures - textures, 0u);
  EXPECT_EQ(n.staging_growths - growths, 0u);
  EXPECT_EQ(n.workers_started, 1u);
  EXPECT_EQ(n.workers_lost, 0u);
  EXPECT_EQ(n.failures, 0u);
}

// 10,000 converts over four buffers: nothing is made any more.
TEST_F(GlDeviceTest, TenThousandConvertsMakeNothingNew) {
  for (const GlTransfer transfer :
       {GlTransfer::kZeroCopy, GlTransfer::kPbo, GlTransfer::kMemory}) {
    GlSettings settings = Settings();
    settings.transfer = transfer;
    Start(settings);
    if (IsSkipped()) return;
    const bool imports =
        gl_->features()->import_memfd && transfer == GlTransfer::kZeroCopy;
    std::vector<GlPicture> from;
    std::vector<GlPicture> to;
    std::vector<ConvertPlan> plans;
    for (int i = 0; i < 4; ++i) {
      from.push_back(MakeGlPicture(PixelFormat::kNv12, DType::kU8, 32, 16));
      to.push_back(MakeGlPicture(
          i % 2 == 0 ? PixelFormat::kRgba : PixelFormat::kPlanarRgb, DType::kU8,
          16, 16));
      Paint(from.back(), static_cast<uint32_t>(i));
      plans.push_back(Plan(from.back(), to.back()));
    }
    const auto convert = [&](int i) {
      const auto k = static_cast<size_t>(i) % 4;
      const absl::Status ran = Convert(plans[k], from[k], to[k]);
      if (!ran.ok()) ADD_FAILURE() << ran;
    };
    for (int i = 0; i < 16; ++i) convert(i);
    printf("%s: %s\n", std::string(GlTransferName(transfer)).c_str(),
           imports ? "imported" : "uploaded");
    ExpectSteady(gl_->counts(), imports ? 0 : 1, convert,
                 transfer == GlTransfer::kPbo ? 2'000 : 10'000);
    for (size_t k = 0; k < 4; ++k) {
      EXPECT_LE(Distance(to[k], Reference(plans[k], from[k], to[k])), 1);
    }
  }
}

TEST_F(GlDeviceTest, AHungWorkerIsLeftBehindAndTheNextConvertIsOnGlAgain) {
  GlSettings settings = Settings();
  Start(settings);
  if (IsSkipped()) return;
  settings.stall_ms = kStallMs;
  Start(settings);
  PutGate();
  MakePair(1);
  DrawGate().Close();
  const absl::Status hung = Convert(plan_, from_, to_);
  EXPECT_EQ(hung.code(), absl::StatusCode::kUnavailable) << hung;
  EXPECT_EQ(GetErrorDetail(hung)->reason, ErrorReason::kBackendFailed);
  EXPECT_EQ(gl_->counts().workers_lost, 1u);
  EXPECT_EQ(DrawGate().waited(), 1);
  // What the caller had is its own again: the hung draw ends in memory of the
  // worker, after these buffers are gone.
  from_ = {};
  to_ = {};
  DrawGate().Open();
  MakePair(2);
  const absl::Status next = Convert(plan_, from_, to_);
  EXPECT_TRUE(next.ok()) << next;
  EXPECT_LE(Distance(to_, Reference(plan_, from_, to_)), 1);
  EXPECT_EQ(gl_->counts().workers_started, 2u);
  EXPECT_NE(gl_->health(), "");
}

TEST_F(GlDeviceTest, WorkersThatKeepHangingAreBenched) {
  GlSettings settings = Settings();
  settings.stall_ms = kStallMs;
  Start(settings);
  if (IsSkipped()) return;
  PutGate();
  MakePair(1);
  DrawGate().Close();
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(Convert(plan_, from_, to_).ok());
  EXPECT_EQ(gl_->counts().workers_lost, 3u);
  const absl::Status benched = Convert(plan_, from_, to_);
  EXPECT_EQ(benched.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(benched.message().find("not tried again"), absl::string_view::npos)
      << benched;
  EXPECT_EQ(gl_->counts().workers_started, 3u);
  EXPECT_NE(gl_->health().find("benched"), std::string::npos);
}

TEST_F(GlDeviceTest, AResetIsAnsweredOnceAndGarbageIsIgnored) {
  Start(Settings());
  if (IsSkipped()) return;
  if (!gl_->features()->robust) GTEST_SKIP() << "no robust contexts";
  PutResets();
  MakePair(3);
  reported_reset = 0x1234;
  EXPECT_TRUE(Convert(plan_, from_, to_).ok());
  EXPECT_EQ(gl_->counts().resets, 0u);
  reported_reset = GL_GUILTY_CONTEXT_RESET_EXT;
  const absl::Status reset = Convert(plan_, from_, to_);
  EXPECT_EQ(reset.code(), absl::StatusCode::kUnavailable) << reset;
  const absl::Status next = Convert(plan_, from_, to_);
  EXPECT_TRUE(next.ok()) << next;
  EXPECT_LE(Distance(to_, Reference(plan_, from_, to_)), 1);
  EXPECT_EQ(gl_->counts().workers_started, 2u);
}

// Under load through the engine: every request is answered well, by the cpu
// where the worker hung, and later ones by GL again.
TEST_F(GlDeviceTest, NoRequestIsLostWhenAWorkerHangsUnderLoad) {
  GlSettings settings = Settings();
  Start(settings);
  if (IsSkipped()) return;
  EngineOptions options;
  options.row_threads = 1;
  options.backends = {"gl", "cpu"};
  options.backend_settings.gl = settings;
  options.backend_settings.gl.stall_ms = kStallMs;
  const auto engine = Engine::Create(options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  PutGate();
  constexpr int kThreads = 4;
  constexpr int kConverts = 60;
  std::atomic<int> on_gl = 0;
  std::atomic<int> on_cpu = 0;
  std::atomic<int> done = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const GlPicture from =
          MakeGlPicture(PixelFormat::kNv12, DType::kU8, 64, 48);
      const GlPicture to = MakeGlPicture(PixelFormat::kRgb, DType::kU8, 32, 32);
      Paint(from, static_cast<uint32_t>(t));
      const auto plan = (*engine)->Plan(from.desc, to.desc, {}, false);
      ASSERT_TRUE(plan.ok()) << plan.status();
      ASSERT_EQ(plan->backend, "gl");
      const GlPicture expected = Reference(*plan, from, to);
      for (int i = 0; i < kConverts; ++i) {
        std::ranges::fill(to.bytes(), std::byte{0});
        WorkReport report;
        const absl::Status ran =
            (*engine)->Convert(*plan, from.buffers(), to.buffers(), report);
        ASSERT_TRUE(ran.ok()) << ran;
        ASSERT_LE(Distance(to, expected), 1);
        ++(report.failover.backend.empty() ? on_gl : on_cpu);
        if (++done == kThreads * kConverts / 3) DrawGate().Close();
        if (!report.failover.backend.empty()) DrawGate().Open();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(on_gl + on_cpu, kThreads * kConverts);
  EXPECT_GE(on_cpu, 1);
  EXPECT_GT(on_gl, kThreads * kConverts / 2);
  for (const BackendStatus& status : (*engine)->status()) {
    if (status.name != "gl") continue;
    for (const BackendCounter& counter : status.counters) {
      if (counter.name != "workers_lost") continue;
      EXPECT_GE(counter.value, 1u);
    }
  }
}

// Contexts belong to their threads whatever thread asks, and whatever API the
// caller has bound.
TEST_F(GlDeviceTest, ThreadsAndWorkersGiveTheBytesOfOne) {
  ASSERT_TRUE(eglBindAPI(EGL_OPENGL_API));
  for (const int workers : {1, 2, 4}) {
    GlSettings settings = Settings();
    settings.workers = workers;
    if (workers == 4) settings.serialisation = GlSerialisation::kFull;
    Start(settings);
    if (IsSkipped()) return;
    std::vector<std::thread> threads;
    std::atomic<int> wrong = 0;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        RowPool rows(1);
        const GlPicture from =
            MakeGlPicture(PixelFormat::kRgba, DType::kU8, 40 + t, 30);
        const GlPicture to =
            MakeGlPicture(PixelFormat::kRgba, DType::kU8, 16 + t * 4, 16);
        Paint(from, static_cast<uint32_t>(t));
        const ConvertPlan plan = Plan(from, to);
        const GlPicture expected = Reference(plan, from, to);
        for (int i = 0; i < 15; ++i) {
          std::ranges::fill(to.bytes(), std::byte{0});
          const auto ran =
              gl_->Convert(plan, from.buffers(), to.buffers(), rows);
          if (!ran.ok() || Distance(to, expected) > 1) ++wrong;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0) << workers;
    EXPECT_LE(gl_->counts().workers_started, static_cast<uint64_t>(workers));
  }
}

// Imports, refusals and fences keep no descriptor.
TEST_F(GlDeviceTest, DescriptorsStayConstantOverNewBuffers) {
  Start(Settings());
  if (IsSkipped()) return;
  MakePair(0);
  int before = 0;
  for (int i = 0; i < 400; ++i) {
    MakePair(i);
    ASSERT_TRUE(Convert(plan_, from_, to_).ok());
    if (i == 200) before = OpenDescriptors();
  }
  EXPECT_NEAR(OpenDescriptors(), before, 4);
}

}  // namespace
}  // namespace preprocd
