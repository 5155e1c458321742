// AdamW with masters and moments in host memory. The host updates some subgroups in place, the
// device others, whose state is copied to the device and back meanwhile (Deep Optimizer States,
// arXiv 2410.21316). Every subgroup is updated once, by the same arithmetic, whatever the schedule.
// If the device has the host's kernel, the result equals that of AdamW bit for bit.
//
//   gradients  lie on the device; those of host subgroups are copied to the host, best during
//              backward
//   state      of interleaved subgroups is copied into one of a few slots on the device before its
//              use, and back
//   masters    are all in host memory when Finish returns, also those of resident subgroups
//   shadow     lies on the device; that of host subgroups is copied there
//
// Matrices that another optimizer (Muon) updates as a whole are handled in the same way, with a
// float32 momentum instead of the two moments.
//
// Every buffer has the stamp of its content as its version (Movement), so a stale copy is an error.
// Called from one thread. Finish and the calls that say so wait for the device.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/thread_team.h"
#include "common/plan/update_schedule.h"
#include "worker/movement/arena.h"
#include "worker/movement/movement.h"
#include "worker/offload/device_adamw.h"
#include "worker/optim/optimizer.h"

namespace longhaul {

class InterleavedAdamW : public Optimizer {
 public:
  struct Subgroup {
    SubgroupShape shape;
    // The masters, in host memory. Submit must get the same span.
    absl::Span<float> parameters;
  };
  struct Options {
    AdamWOptions adamw;
    // The learning rate of AdamW is this times the update's.
    double adamw_rate = 1;
    // Updates matrices on the host. Empty: AdamW updates them, too.
    HostUpdate matrices;
    UpdateScheduleOptions schedule;
    // Updates have a shadow.
    bool shadow = false;
    // By default one is filled, one computed on, one emptied.
    int slots = 3;
  };
  // The memory for subgroups of these shapes. Of `matrices` only whether it is empty counts.
  struct Bytes {
    int64_t host = 0, device = 0;
  };
  static Bytes BytesOf(const Options& options, absl::Span<const SubgroupShape> shapes);

  // `movement`, `team` (may be null) and the masters outlive the object. Errors: those of
  // Movement::Allocate.
  static absl::StatusOr<std::unique_ptr<InterleavedAdamW>> Create(
      const Options& options, absl::Span<const Subgroup> subgroups, Movement& movement,
      DeviceAdamW device, ThreadTeam* team);
  // Waits for its works.
  ~InterleavedAdamW() override;

  const UpdateSchedule& schedule() const { return schedule_; }
  Bytes bytes() const { return bytes_; }

  // --- Before an update.

  // Begins to copy the state of the first interleaved subgroups to the device.
  void PrefetchState();
  // Begins to copy the gradients of a host subgroup to the host. They must be complete, and must
  // not change until Finish or ForgetGradients. Submit does it for the subgroups that were not
  // flushed. Only subgroup and gradients of `update` count.
  void FlushGradients(const SubgroupUpdate& update);
  // Ends the gradients without an update. Waits for the copies that read them.
  absl::Status ForgetGradients();
  // Call before the masters are written outside of an update. Waits for the copies that read them,
  // and drops copies of them.
  absl::Status BeginWrite(int subgroup);

  // --- Optimizer. Finish returns the errors of Submit.

  void Begin(const UpdateOptions& options) override;
  void Submit(const SubgroupUpdate& update) override;
  bool Settled(int subgroup) const override;
  absl::Status Finish() override;
  bool Keeps(OptimizerState state, int subgroup) const override {
    return state == OptimizerState::kMoment || !IsMatrix(options_, subgroups_[subgroup].shape);
  }
  absl::Status ReadState(OptimizerState state, int subgroup, int64_t first,
                         absl::Span<float> values) const override;
  absl::Status WriteState(OptimizerState state, int subgroup, int64_t first,
                          absl::Span<const float> values) override;
  int64_t updates() const override { return updates_; }
  void SetUpdates(int64_t updates) override { updates_ = updates; }
  int64_t state_bytes() const override;

 private:
  using Buffer = std::unique_ptr<VersionedBuffer>;
  struct State {
    SubgroupShape shape;
    UpdateWay way = UpdateWay::kHost;
    // Of masters and moments.
    int64_t stamp = 0;
    // The masters themselves.
    Buffer parameters;
    Buffer moment, variance;
    // kResident: a copy of the masters on the device.
    Buffer resident;
    // kHost: a copy of the gradients in host memory.
    Buffer gradients;
    // The memory of the update: its gradients and its shadow.
    Buffer source, shadow;
    // The generation of the gradients that were flushed last.
    int64_t flushed = -1;
    MoveToken flush;
    // Submitted, and not updated by the host yet.
    bool waits = false;
    MoveToken settled;
    SubgroupUpdate update;
  };
  // Device memory for the state of one interleaved subgroup.
  struct Slot {
    Buffer parameters, moment, variance;
    // The subgroup whose state the slot has or receives. -1: none.
    int subgroup = -1;
    int64_t stamp = 0;
    MoveToken loaded, free;
  };
  struct ShadowSlot {
    Buffer buffer;
    MoveToken free;
  };
  // Where some elements of m or v lie: in float32 if `wide`, otherwise in bf16.
  struct StatePart {
    MemorySide side = MemorySide::kHost;
    bool wide = true;
    absl::Span<std::byte> memory;
  };
  // A part of the state on its way between a piece of host memory and the device.
  struct StagedState;

  // Whether another optimizer updates the subgroup.
  static bool IsMatrix(const Options& options, const SubgroupShape& shape) {
    return options.matrices != nullptr && shape.matrix();
  }
  // Bytes of an element of m and of v.
  struct MomentSizes {
    int64_t moment = 0, variance = 0;
  };
  static MomentSizes SizesOf(const Options& options, const SubgroupShape& shape);
  InterleavedAdamW(const Options& options, UpdateSchedule schedule, Movement& movement,
                   DeviceAdamW device, ThreadTeam* team);
  absl::Status TakeMemory(absl::Span<const Subgroup> subgroups);
  // Without the arrays.
  DeviceUpdate UpdateOf(const State& state) const;
  AdamWArrays Arrays(const State& state, const VersionedBuffer& gradients,
                     const VersionedBuffer& parameters, const VersionedBuffer& moment,
                     const VersionedBuffer& variance) const;
  // Makes a buffer of memory that the object does not own.
  static void Point(Buffer& buffer, const char* name, MemorySide side, const void* memory,
                    int64_t bytes, int64_t version);
  void PointSource(State& state, const SubgroupUpdate& update);

  Slot* Held(int subgroup);
  Slot& Load(int subgroup);
  void PrefetchAfter(int subgroup);
  void SubmitInterleaved(int subgroup);
  void SubmitResident(int subgroup);
  // Enqueues the update of a subgroup on the device. The caller sets the new stamp.
  MoveToken Compute(State& state, VersionedBuffer& parameters, VersionedBuffer& moment,
                    VersionedBuffer& variance, const MoveToken& loaded, int64_t stamp);
  // Updates the host subgroups whose gradients have arrived. Waits for others until at most
  // `waiting_max` are left.
  void RunHost(size_t waiting_max);
  absl::Status UpdateOnHost(State& state);
  void Note(const absl::Status& status);
  StatePart PartOf(OptimizerState state, int subgroup, int64_t first, size_t count) const;
  // Copies `host` to the part, or the part to `host`, and waits. If the wait fails, the copy may
  // still run, so the movement takes `host` and keeps it.
  absl::Status Transfer(MoveQueue queue, const StatePart& part, std::vector<std::byte>& host) const;

  const Options options_;
  const UpdateSchedule schedule_;
  Movement& movement_;
  const DeviceAdamW device_;
  ThreadTeam* const team_;
  std::vector<State> subgroups_;
  std::vector<int> interleaved_;
  std::vector<Slot> slots_;
  std::vector<ShadowSlot> shadows_;
  size_t next_slot_ = 0, next_shadow_ = 0;
  // Host subgroups, in the order of their submission.
  std::deque<int> waiting_;
  // The last stamp, and the generation of the current gradients.
  int64_t stamps_ = 0, generation_ = 1;
  int64_t updates_ = 0;
  UpdateOptions update_;
  Bytes bytes_;
  // The first error of the current update.
  absl::Status status_;
};

}  // namespace longhaul
