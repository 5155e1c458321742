#include "tests/unit/worker/engine/late_graphs.h"

#include <map>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "c10/core/StreamGuard.h"
#include "c10/core/impl/VirtualGuardImpl.h"
#include "tests/unit/worker/engine/late_device.h"

namespace longhaul {

struct LateGraphMemory {
  ~LateGraphMemory() {
    for (void* data : all) ::operator delete (data, std::align_val_t{64});
  }
  std::mutex mutex;
  std::vector<void*> all;
  // By size.
  std::map<size_t, std::vector<void*>> free;
};

namespace {

struct Recorded {
  std::shared_ptr<LateGraphMemory> memory;
  std::vector<std::function<void()>> works;
};

std::mutex recordings_mutex;
// By stream. torch's backward queues from a thread of its own.
std::map<void*, Recorded*> recordings;

Recorded* RecordingOf(void* stream) {
  const std::lock_guard lock(recordings_mutex);
  const auto found = recordings.find(stream);
  return found == recordings.end() ? nullptr : found->second;
}

class LateGraph : public DeviceGraph {
 public:
  explicit LateGraph(Recorded recorded)
      : recorded_(std::make_shared<Recorded>(std::move(recorded))) {}
  void Launch() override {
    CheckNotRecorded("launching a graph");
    SubmitLate(CurrentLateStream(), [recorded = recorded_] {
      for (const auto& work : recorded->works) work();
    });
  }

 private:
  const std::shared_ptr<const Recorded> recorded_;
};

class LateGraphRecorder : public GraphRecorder {
 public:
  void WarmUp(const std::function<void()>& work) override { RunOn(stream_, work); }

  std::unique_ptr<DeviceGraph> Record(const std::function<void()>& work) override {
    const c10::StreamGuard guard(stream_);
    Recorded recorded{.memory = memory_};
    struct Recording {
      explicit Recording(Recorded& into) {
        const std::lock_guard lock(recordings_mutex);
        recordings[CurrentLateStream()] = &into;
      }
      ~Recording() {
        const std::lock_guard lock(recordings_mutex);
        recordings.erase(CurrentLateStream());
      }
    };
    {
      const Recording recording(recorded);
      work();
    }
    return std::make_unique<LateGraph>(std::move(recorded));
  }

 private:
  const c10::Stream stream_ =
      c10::impl::VirtualGuardImpl(kLateDevice.type()).getNewStream(kLateDevice);
  const std::shared_ptr<LateGraphMemory> memory_ = std::make_shared<LateGraphMemory>();
};

}  // namespace

std::unique_ptr<GraphRecorder> MakeLateGraphRecorder() {
  return std::make_unique<LateGraphRecorder>();
}

void SubmitLate(void* stream, std::function<void()> work) {
  if (Recorded* const recorded = RecordingOf(stream)) {
    recorded->works.push_back(std::move(work));
  } else {
    LateStreams().Submit(stream, std::move(work));
  }
}

void CheckNotRecorded(const char* what) {
  TORCH_CHECK(RecordingOf(CurrentLateStream()) == nullptr, what, " while a graph is recorded");
}

std::shared_ptr<LateGraphMemory> CurrentLateGraphMemory() {
  const Recorded* const recorded = RecordingOf(CurrentLateStream());
  return recorded == nullptr ? nullptr : recorded->memory;
}

void* AllocateForGraphs(LateGraphMemory& memory, size_t bytes) {
  const std::lock_guard lock(memory.mutex);
  std::vector<void*>& free = memory.free[bytes];
  if (free.empty()) {
    memory.all.push_back(::operator new (bytes, std::align_val_t{64}));
    return memory.all.back();
  }
  void* const data = free.back();
  free.pop_back();
  return data;
}

void FreeOfGraphs(LateGraphMemory& memory, void* data, size_t bytes) {
  const std::lock_guard lock(memory.mutex);
  memory.free[bytes].push_back(data);
}

}  // namespace longhaul
