// AdamW whose masters and moments rest in host memory: the host updates some subgroups where they
// lie, the device others, whose state goes up and comes back meanwhile (Deep Optimizer States,
// arXiv 2410.21316). Every subgroup is updated once, by the same arithmetic, whatever the schedule:
// where the device has the host's kernel, results are the plain update's bit for bit.
//
//   gradients  are given on the device; those of host subgroups come down, best during backward
//   state      of interleaved subgroups goes up ahead of its use into one of a few slots, and back
//   masters    are all in host memory when Finish returns, those of resident subgroups too
//   shadow     lies on the device; that of host subgroups goes up
//
// Matrices that another optimizer (Muon) updates whole go the same ways, with a momentum in float32 for
// their moments.
//
// Every copy carries the stamp of the state that it was made of (Movement). Used from one thread.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/thread_team.h"
#include "worker/movement/arena.h"
#include "worker/movement/movement.h"
#include "worker/offload/device_adamw.h"
#include "worker/offload/update_schedule.h"
#include "worker/optim/optimizer.h"

namespace longhaul {

class InterleavedAdamW : public Optimizer {
 public:
  struct Subgroup {
    SubgroupShape shape;
    absl::Span<float> parameters;  // The masters, in host memory; Submit is given the same.
  };
  struct Options {
    AdamWOptions adamw;
    double adamw_rate = 1;  // AdamW's learning rate is this times the update's.
    HostUpdate
        matrices;  // Of subgroups that are matrices, on the host. Else they are AdamW's, too.
    ScheduleOptions schedule;
    bool shadow = false;  // Updates have one.
    int slots = 3;        // One is filled, one computed on, one emptied.
  };
  // What it keeps for subgroups of these shapes. `matrices` of the options may be any.
  struct Bytes {
    int64_t host = 0, device = 0;
  };
  static Bytes BytesOf(const Options& options, absl::Span<const SubgroupShape> shapes);

  // `movement`, `team` (may be null) and the masters outlive the object. RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<InterleavedAdamW>> Create(
      const Options& options, absl::Span<const Subgroup> subgroups, Movement& movement,
      DeviceAdamW device, ThreadTeam* team);
  // Waits for what is under way.
  ~InterleavedAdamW() override;

  const UpdateSchedule& schedule() const { return schedule_; }
  Bytes bytes() const { return bytes_; }

  // --- Before an update.

  // The state of the first subgroups that the device updates sets out.
  void PrefetchState();
  // A subgroup's gradients are complete; they stay as they are until Finish or ForgetGradients.
  // Those of host subgroups set out. Submit does it for what was not flushed. Of the update only
  // the gradients count.
  void FlushGradients(const SubgroupUpdate& update);
  // There will be no update of these gradients: waits for what reads them.
  absl::Status ForgetGradients();
  // Before anybody else writes masters: waits for what reads them, and forgets copies.
  absl::Status BeginWrite(int subgroup);

  // --- Optimizer. Errors of Submit are Finish's.

  void Begin(const UpdateOptions& options) override;
  void Submit(const SubgroupUpdate& update) override;
  bool Settled(int subgroup) const override;
  absl::Status Finish() override;
  bool Keeps(OptimizerState state, int subgroup) const override {
    return state == OptimizerState::kMoment || !IsMatrix(options_, subgroups_[subgroup].shape);
  }
  void ReadState(OptimizerState state, int subgroup, int64_t first,
                 absl::Span<float> values) const override;
  void WriteState(OptimizerState state, int subgroup, int64_t first,
                  absl::Span<const float> values) override;
  int64_t updates() const override { return updates_; }
  void SetUpdates(int64_t updates) override { updates_ = updates; }
  int64_t state_bytes() const override;

 private:
  using Buffer = std::unique_ptr<PlacedBuffer>;
  struct State {
    SubgroupShape shape;
    UpdatePlace place = UpdatePlace::kHost;
    int64_t stamp = 0;  // Of masters and moments.
    Buffer parameters;  // On the masters.
    Buffer moment, variance;
    Buffer resident;        // kResident: the masters on the device.
    Buffer gradients;       // kHost: in host memory.
    Buffer source, shadow;  // On the update's own memory.
    int64_t flushed = -1;   // The generation of gradients that set out.
    MoveToken flush;
    bool waits = false;  // Submitted, and not yet updated by the host.
    MoveToken settled;
    SubgroupUpdate update;
  };
  // Device memory for the state of one interleaved subgroup.
  struct Slot {
    Buffer parameters, moment, variance;
    int subgroup = -1;  // Whose state it has or gets. -1: nobody's.
    int64_t stamp = 0;
    MoveToken loaded, free;
  };
  struct ShadowSlot {
    Buffer buffer;
    MoveToken free;
  };

  // Of a matrix that is not AdamW's.
  static bool IsMatrix(const Options& options, const SubgroupShape& shape) {
    return options.matrices != nullptr && shape.matrix();
  }
  // Of an element of m and of v, in bytes.
  struct MomentSizes {
    int64_t moment = 0, variance = 0;
  };
  static MomentSizes SizesOf(const Options& options, const SubgroupShape& shape);
  InterleavedAdamW(const Options& options, UpdateSchedule schedule, Movement& movement,
                   DeviceAdamW device, ThreadTeam* team);
  absl::Status TakeMemory(absl::Span<const Subgroup> subgroups);
  // All but the arrays.
  DeviceUpdate UpdateOf(const State& state) const;
  AdamWArrays Arrays(const State& state, const PlacedBuffer& gradients,
                     const PlacedBuffer& parameters, const PlacedBuffer& moment,
                     const PlacedBuffer& variance) const;
  // A buffer on memory of somebody else.
  static void Point(Buffer& buffer, const char* name, Place place, const void* memory,
                    int64_t bytes, int64_t version);
  void PointSource(State& state, const SubgroupUpdate& update);

  Slot* Held(int subgroup);
  Slot& Load(int subgroup);
  void PrefetchAfter(int subgroup);
  void SubmitInterleaved(int subgroup);
  void SubmitResident(int subgroup);
  // On the device; the caller stamps.
  MoveToken Compute(State& state, PlacedBuffer& parameters, PlacedBuffer& moment,
                    PlacedBuffer& variance, const MoveToken& loaded, int64_t stamp);
  // Runs host subgroups whose gradients are there, and others until so many wait.
  void RunHost(size_t waiting_max);
  absl::Status UpdateOnHost(State& state);
  void Note(const absl::Status& status);

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
  std::deque<int> waiting_;              // Host subgroups, in the order of their submission.
  int64_t stamps_ = 0, generation_ = 1;  // The last stamp; of the gradients at hand.
  int64_t updates_ = 0;
  UpdateOptions update_;
  Bytes bytes_;
  absl::Status status_;  // Of the update under way.
};

}  // namespace longhaul
