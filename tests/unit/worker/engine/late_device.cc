#include "tests/unit/worker/engine/late_device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "c10/core/Event.h"
#include "c10/core/Stream.h"
#include "c10/core/impl/DeviceGuardImplInterface.h"
#include "common/base/clock.h"

namespace longhaul {
namespace {

using EventPtr = DeviceStreams::EventPtr;

// By torch's number. 0: the default stream.
struct LateDevice {
  EmulatedStreams streams{1};
  std::mutex mutex;
  std::deque<std::shared_ptr<void>> numbered{streams.NewStream().value()};
};
LateDevice& TheDevice() {
  static auto* const device = new LateDevice;  // Threads of torch outlive static objects.
  return *device;
}

thread_local c10::StreamId current_stream = 0;

std::atomic<int> events_left = -1;

void CheckEventWorks() {
  if (events_left < 0) return;
  TORCH_CHECK(events_left > 0, "the device has failed");
  --events_left;
}

void* HandleOf(c10::StreamId id) {
  LateDevice& device = TheDevice();
  const std::lock_guard lock(device.mutex);
  return device.numbered.at(id).get();
}
c10::StreamId NewNumber() {
  LateDevice& device = TheDevice();
  const std::lock_guard lock(device.mutex);
  device.numbered.push_back(device.streams.NewStream().value());
  return static_cast<c10::StreamId>(device.numbered.size()) - 1;
}

void WaitFor(const EventPtr& event) {
  const absl::Status status = TheDevice().streams.Wait(event, SteadyTime() + absl::Seconds(60));
  TORCH_CHECK(status.ok(), status.ToString());
}

class LateGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kLateDevice.type(); }
  c10::Device exchangeDevice(c10::Device) const override { return kLateDevice; }
  c10::Device getDevice() const override { return kLateDevice; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }

  c10::Stream getStream(c10::Device) const override { return Numbered(current_stream); }
  c10::Stream getDefaultStream(c10::Device) const override { return Numbered(0); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override {
    return Numbered(NewNumber());
  }
  c10::Stream getNewStream(c10::Device, int) const override { return Numbered(NewNumber()); }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return Numbered(std::exchange(current_stream, stream.id()));
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return HandleOf(stream.id());
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    CheckEventWorks();
    if (*event == nullptr) *event = new EventPtr;
    *static_cast<EventPtr*>(*event) = TheDevice().streams.Record(HandleOf(stream.id())).value();
  }
  void block(void* event, const c10::Stream& stream) const override {
    CheckEventWorks();
    if (event == nullptr) return;
    TORCH_CHECK(
        TheDevice().streams.Block(HandleOf(stream.id()), *static_cast<EventPtr*>(event)).ok());
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<EventPtr*>(event);
  }
  // The streams run while somebody waits: who asks again and again waits, too.
  bool queryEvent(void* event) const override {
    const absl::Time soon = SteadyTime() + absl::Milliseconds(1);
    return event == nullptr || TheDevice().streams.Wait(*static_cast<EventPtr*>(event), soon).ok();
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) WaitFor(*static_cast<EventPtr*>(event));
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    WaitFor(TheDevice().streams.Record(HandleOf(stream.id())).value());
  }

 private:
  static c10::Stream Numbered(c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, kLateDevice, id);
  }
};

// Before torch looks for devices, which it does once.
C10_REGISTER_GUARD_IMPL(PrivateUse1, LateGuard)

}  // namespace

EmulatedStreams& LateStreams() { return TheDevice().streams; }

void TakeLateStream() { current_stream = NewNumber(); }

HungLateStream::HungLateStream() {
  absl::Notification hangs;
  // All of it by another thread, since who submits a work may run it at once.
  device_ = std::thread([this, &hangs, stream = CurrentLateStream()] {
    LateStreams().Submit(stream, [&] {
      hangs.Notify();
      goes_on_.WaitForNotification();
    });
    const auto end = LateStreams().Record(stream).value();
    EXPECT_TRUE(LateStreams().Wait(end, SteadyTime() + absl::Seconds(60)).ok());
  });
  hangs.WaitForNotification();
}

HungLateStream::~HungLateStream() {
  goes_on_.Notify();
  device_.join();
}

void FailLateEventsAfter(int count) { events_left = count; }

void* CurrentLateStream() { return HandleOf(current_stream); }

}  // namespace longhaul
