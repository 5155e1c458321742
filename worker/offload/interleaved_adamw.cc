#include "worker/offload/interleaved_adamw.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "worker/optim/bfloat16.h"

namespace longhaul {
namespace {

constexpr int64_t kFloat = sizeof(float), kNarrow = sizeof(uint16_t);
// So many submitted host subgroups may wait for gradients that were not flushed before.
constexpr size_t kWaitingMax = 2;
constexpr int kShadowSlots = 2;

constexpr MoveQueue kStateUp{Direction::kUp, MoveClass::kState};
constexpr MoveQueue kStateDown{Direction::kDown, MoveClass::kState};
constexpr MoveQueue kGradientsDown{Direction::kDown, MoveClass::kGradients};
constexpr MoveQueue kWeightsUp{Direction::kUp, MoveClass::kWeights};

// The size of the largest subgroup that is updated in this way, in bytes. bytes(shape) is the size
// of an element.
template <typename Bytes>
int64_t LargestOf(absl::Span<const SubgroupShape> shapes, absl::Span<const UpdateWay> ways,
                  UpdateWay way, Bytes&& bytes) {
  int64_t largest = 0;
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (ways[i] == way) largest = std::max(largest, shapes[i].elements * bytes(shapes[i]));
  }
  return largest;
}

std::vector<SubgroupShape> ShapesOf(absl::Span<const InterleavedAdamW::Subgroup> subgroups) {
  std::vector<SubgroupShape> shapes;
  for (const auto& subgroup : subgroups) shapes.push_back(subgroup.shape);
  return shapes;
}

std::vector<int64_t> ElementsOf(absl::Span<const SubgroupShape> shapes) {
  std::vector<int64_t> elements;
  for (const SubgroupShape& shape : shapes) elements.push_back(shape.elements);
  return elements;
}

int64_t FloatBytes(const SubgroupShape&) { return kFloat; }
int64_t NarrowBytes(const SubgroupShape&) { return kNarrow; }

}  // namespace

InterleavedAdamW::MomentSizes InterleavedAdamW::SizesOf(const Options& options,
                                                        const SubgroupShape& shape) {
  if (IsMatrix(options, shape)) return {.moment = kFloat};
  const int64_t size = MomentBytes(options.adamw.moments);
  return {.moment = size, .variance = size};
}

struct InterleavedAdamW::StagedState {
  StagedState(std::vector<std::byte> bytes, absl::Span<std::byte> device)
      : host(std::move(bytes)),
        here("a part of the optimizer's state", MemorySide::kHost, absl::MakeSpan(host)),
        there("the optimizer's state", MemorySide::kDevice, device) {}

  std::vector<std::byte> host;
  VersionedBuffer here, there;
};

InterleavedAdamW::Bytes InterleavedAdamW::BytesOf(const Options& options,
                                                  absl::Span<const SubgroupShape> shapes) {
  const UpdateSchedule schedule = MakeUpdateSchedule(ElementsOf(shapes), options.schedule);
  Bytes bytes;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const MomentSizes sizes = SizesOf(options, shapes[i]);
    const int64_t moments = Arena::SizeOf(shapes[i].elements * sizes.moment) +
                            Arena::SizeOf(shapes[i].elements * sizes.variance);
    const int64_t wide = Arena::SizeOf(shapes[i].elements * kFloat);
    switch (schedule.ways[i]) {
      case UpdateWay::kHost:
        bytes.host += moments + wide;
        break;
      case UpdateWay::kInterleaved:
        bytes.host += moments;
        break;
      case UpdateWay::kResident:
        bytes.device += moments + wide;
    }
  }
  const auto slot = [&](auto&& of_element) {
    return Arena::SizeOf(LargestOf(shapes, schedule.ways, UpdateWay::kInterleaved, of_element));
  };
  bytes.device +=
      options.slots *
      (slot(FloatBytes) + slot([&](const SubgroupShape& s) { return SizesOf(options, s).moment; }) +
       slot([&](const SubgroupShape& s) { return SizesOf(options, s).variance; }));
  const int64_t shadow = LargestOf(shapes, schedule.ways, UpdateWay::kHost, NarrowBytes);
  if (options.shadow) bytes.host += kShadowSlots * Arena::SizeOf(shadow);
  return bytes;
}

absl::StatusOr<std::unique_ptr<InterleavedAdamW>> InterleavedAdamW::Create(
    const Options& options, absl::Span<const Subgroup> subgroups, Movement& movement,
    DeviceAdamW device, ThreadTeam* team) {
  LH_CHECK(options.slots > 0, "the device needs a slot");
  std::unique_ptr<InterleavedAdamW> optimizer(new InterleavedAdamW(
      options, MakeUpdateSchedule(ElementsOf(ShapesOf(subgroups)), options.schedule), movement,
      std::move(device), team));
  LH_RETURN_IF_ERROR(optimizer->TakeMemory(subgroups));
  return optimizer;
}

InterleavedAdamW::InterleavedAdamW(const Options& options, UpdateSchedule schedule,
                                   Movement& movement, DeviceAdamW device, ThreadTeam* team)
    : options_(options),
      schedule_(std::move(schedule)),
      movement_(movement),
      device_(std::move(device)),
      team_(team) {}

InterleavedAdamW::~InterleavedAdamW() {
  movement_.WaitAll("ending the interleaved update").IgnoreError();
}

absl::Status InterleavedAdamW::TakeMemory(absl::Span<const Subgroup> subgroups) {
  const std::vector<SubgroupShape> shapes = ShapesOf(subgroups);
  bytes_ = BytesOf(options_, shapes);
  LH_ASSIGN_OR_RETURN(Arena host, Arena::Create(movement_, MemorySide::kHost, bytes_.host,
                                                "the optimizer's offloaded state"));
  LH_ASSIGN_OR_RETURN(Arena device, Arena::Create(movement_, MemorySide::kDevice, bytes_.device,
                                                  "the optimizer's state on the device"));
  for (int i = 0; i < static_cast<int>(subgroups.size()); ++i) {
    State& state = subgroups_.emplace_back();
    state.shape = subgroups[i].shape;
    state.way = schedule_.ways[i];
    const auto name = [&](const char* what) { return absl::StrCat(what, " of subgroup ", i); };
    const int64_t size = shapes[i].elements;
    const MomentSizes sizes = SizesOf(options_, shapes[i]);
    LH_CHECK(static_cast<int64_t>(subgroups[i].parameters.size()) == size,
             "a subgroup has another size");
    Point(state.parameters, "masters", MemorySide::kHost, subgroups[i].parameters.data(),
          size * kFloat, 0);
    Arena& rests = state.way == UpdateWay::kResident ? device : host;
    state.moment = rests.Take(name("m"), size * sizes.moment);
    state.variance = rests.Take(name("v"), size * sizes.variance);
    if (state.way == UpdateWay::kResident)
      state.resident = device.Take(name("resident masters"), size * kFloat);
    if (state.way == UpdateWay::kHost)
      state.gradients = host.Take(name("gradients"), size * kFloat);
    if (state.way == UpdateWay::kInterleaved) interleaved_.push_back(i);
    // Gives the first stamp. It cannot fail, since no work was submitted.
    BeginWrite(i).IgnoreError();
  }
  const auto largest = [&](auto&& of_element) {
    return LargestOf(shapes, schedule_.ways, UpdateWay::kInterleaved, of_element);
  };
  const int64_t moment =
      largest([&](const SubgroupShape& shape) { return SizesOf(options_, shape).moment; });
  const int64_t variance =
      largest([&](const SubgroupShape& shape) { return SizesOf(options_, shape).variance; });
  for (int i = 0; i < options_.slots; ++i) {
    const auto name = [&](const char* what) { return absl::StrCat(what, " in slot ", i); };
    slots_.push_back({.parameters = device.Take(name("masters"), largest(FloatBytes)),
                      .moment = device.Take(name("m"), moment),
                      .variance = device.Take(name("v"), variance)});
  }
  if (!options_.shadow) return absl::OkStatus();
  const int64_t narrow = LargestOf(shapes, schedule_.ways, UpdateWay::kHost, NarrowBytes);
  for (int i = 0; i < kShadowSlots; ++i)
    shadows_.push_back({.buffer = host.Take(absl::StrCat("shadow slot ", i), narrow)});
  return absl::OkStatus();
}

void InterleavedAdamW::Point(Buffer& buffer, const char* name, MemorySide side, const void* memory,
                             int64_t bytes, int64_t version) {
  auto* const data = static_cast<std::byte*>(const_cast<void*>(memory));
  if (buffer == nullptr || buffer->memory().data() != data || buffer->bytes() != bytes) {
    buffer = std::make_unique<VersionedBuffer>(
        name, side, absl::Span<std::byte>(data, static_cast<size_t>(bytes)));
  }
  buffer->SetVersion(version);
}

void InterleavedAdamW::Note(const absl::Status& status) {
  if (status_.ok()) status_ = status;
}

InterleavedAdamW::Slot* InterleavedAdamW::Held(int subgroup) {
  for (Slot& slot : slots_) {
    if (slot.subgroup == subgroup && slot.stamp == subgroups_[subgroup].stamp) return &slot;
  }
  return nullptr;
}

InterleavedAdamW::Slot& InterleavedAdamW::Load(int subgroup) {
  const State& state = subgroups_[subgroup];
  auto found = std::find_if(slots_.begin(), slots_.end(),
                            [](const Slot& slot) { return slot.subgroup < 0; });
  if (found == slots_.end()) found = slots_.begin() + next_slot_++ % slots_.size();
  Slot& slot = *found;
  slot.subgroup = subgroup;
  slot.stamp = state.stamp;
  for (const auto& [from, to] : {std::pair{&state.parameters, &slot.parameters},
                                 {&state.moment, &slot.moment},
                                 {&state.variance, &slot.variance}}) {
    slot.loaded = movement_.Copy(kStateUp, {from->get(), state.stamp}, {to->get(), state.stamp},
                                 (*from)->bytes(), {slot.free, state.settled});
  }
  return slot;
}

void InterleavedAdamW::PrefetchAfter(int subgroup) {
  auto next = std::upper_bound(interleaved_.begin(), interleaved_.end(), subgroup);
  for (size_t i = 0; i < slots_.size() && next != interleaved_.end(); ++i, ++next) {
    if (Held(*next) == nullptr) Load(*next);
  }
}

void InterleavedAdamW::PrefetchState() { PrefetchAfter(-1); }

void InterleavedAdamW::FlushGradients(const SubgroupUpdate& update) {
  State& state = subgroups_[update.subgroup];
  if (state.way != UpdateWay::kHost || state.flushed == generation_) return;
  PointSource(state, update);
  const absl::StatusOr<MoveToken> made = movement_.Fork();
  if (!made.ok()) return Note(made.status());
  state.flush =
      movement_.Copy(kGradientsDown, {state.source.get(), generation_},
                     {state.gradients.get(), generation_}, state.source->bytes(), {*made});
  state.flushed = generation_;
}

absl::Status InterleavedAdamW::ForgetGradients() {
  for (const State& state : subgroups_) {
    if (state.flushed == generation_)
      LH_RETURN_IF_ERROR(movement_.Wait(state.flush, "gradients that nobody wants"));
  }
  ++generation_;
  return std::exchange(status_, absl::OkStatus());
}

absl::Status InterleavedAdamW::BeginWrite(int subgroup) {
  State& state = subgroups_[subgroup];
  for (Slot& slot : slots_) {
    if (slot.subgroup != subgroup) continue;
    LH_RETURN_IF_ERROR(movement_.Wait(slot.loaded, "a prefetch that is not needed"));
    slot.subgroup = -1;
  }
  LH_RETURN_IF_ERROR(movement_.Wait(state.settled, "a subgroup's update"));
  state.stamp = ++stamps_;
  for (const Buffer* buffer : {&state.parameters, &state.moment, &state.variance})
    (*buffer)->SetVersion(state.stamp);
  return absl::OkStatus();
}

void InterleavedAdamW::Begin(const UpdateOptions& options) {
  ++updates_;
  update_ = options;
}

void InterleavedAdamW::Submit(const SubgroupUpdate& update) {
  State& state = subgroups_[update.subgroup];
  const int64_t size = state.shape.elements;
  LH_CHECK(updates_ > 0, "an update outside Begin");
  LH_CHECK(update.Fits(size), "a subgroup has another size");
  LH_CHECK(update.shadow.empty() == (!options_.shadow || size == 0),
           "an update has a shadow if the options say so, and only then");
  LH_CHECK(state.parameters->as<float>() == update.parameters.data(), "masters lie elsewhere");
  if (size == 0 || !status_.ok()) return;
  state.update = update;
  switch (state.way) {
    case UpdateWay::kHost:
      FlushGradients(update);
      state.waits = true;
      waiting_.push_back(update.subgroup);
      break;
    case UpdateWay::kInterleaved:
      SubmitInterleaved(update.subgroup);
      break;
    case UpdateWay::kResident:
      SubmitResident(update.subgroup);
  }
  RunHost(kWaitingMax);
}

void InterleavedAdamW::SubmitInterleaved(int subgroup) {
  State& state = subgroups_[subgroup];
  Slot* const held = Held(subgroup);
  Slot& slot = held != nullptr ? *held : Load(subgroup);
  const int64_t stamp = ++stamps_;
  const MoveToken computed =
      Compute(state, *slot.parameters, *slot.moment, *slot.variance, slot.loaded, stamp);
  for (const auto& [from, to] : {std::pair{&slot.parameters, &state.parameters},
                                 {&slot.moment, &state.moment},
                                 {&slot.variance, &state.variance}}) {
    state.settled = movement_.Copy(kStateDown, {from->get(), stamp}, {to->get(), stamp},
                                   (*to)->bytes(), {computed});
  }
  state.stamp = stamp;
  slot.free = state.settled;
  slot.subgroup = -1;
  PrefetchAfter(subgroup);
}

void InterleavedAdamW::SubmitResident(int subgroup) {
  State& state = subgroups_[subgroup];
  MoveToken loaded;
  // True in the first update, and after a write.
  if (state.resident->promised() != state.stamp) {
    loaded = movement_.Copy(kStateUp, {state.parameters.get(), state.stamp},
                            {state.resident.get(), state.stamp}, state.resident->bytes(),
                            {state.settled});
  }
  const int64_t stamp = ++stamps_;
  const MoveToken computed =
      Compute(state, *state.resident, *state.moment, *state.variance, loaded, stamp);
  state.settled =
      movement_.Copy(kStateDown, {state.resident.get(), stamp}, {state.parameters.get(), stamp},
                     state.resident->bytes(), {computed});
  state.stamp = stamp;
}

void InterleavedAdamW::PointSource(State& state, const SubgroupUpdate& update) {
  const bool wide = !update.gradients.empty();
  const void* const memory =
      wide ? static_cast<const void*>(update.gradients.data()) : update.narrow_gradients.data();
  Point(state.source, "gradients on the device", MemorySide::kDevice, memory,
        state.shape.elements * (wide ? kFloat : kNarrow), generation_);
}

// `gradients` may be a copy in host memory, and not the memory of the update.
AdamWArrays InterleavedAdamW::Arrays(const State& state, const VersionedBuffer& gradients,
                                     const VersionedBuffer& parameters,
                                     const VersionedBuffer& moment,
                                     const VersionedBuffer& variance) const {
  const bool wide = !state.update.gradients.empty();
  AdamWArrays arrays{.gradients = wide ? gradients.as<float>() : nullptr,
                     .narrow_gradients = wide ? nullptr : gradients.as<uint16_t>(),
                     .parameters = parameters.as<float>()};
  if (IsMatrix(options_, state.shape)) {
    arrays.moment = moment.as<float>();
  } else if (options_.adamw.moments == MomentPrecision::kFloat32) {
    arrays.moment = moment.as<float>();
    arrays.variance = variance.as<float>();
  } else {
    arrays.narrow_moment = moment.as<uint16_t>();
    arrays.narrow_variance = variance.as<uint16_t>();
  }
  return arrays;
}

DeviceUpdate InterleavedAdamW::UpdateOf(const State& state) const {
  const SubgroupShape& shape = state.shape;
  DeviceUpdate update{.options = options_.adamw,
                      .update = update_,
                      .count = updates_,
                      .decay = shape.decay,
                      .elements = shape.elements};
  if (IsMatrix(options_, shape)) {
    update.rows = shape.rows;
    update.columns = shape.columns;
  } else {
    update.update.learning_rate *= options_.adamw_rate;
  }
  return update;
}

MoveToken InterleavedAdamW::Compute(State& state, VersionedBuffer& parameters,
                                    VersionedBuffer& moment, VersionedBuffer& variance,
                                    const MoveToken& loaded, int64_t stamp) {
  const absl::StatusOr<MoveToken> made = movement_.Fork();
  if (!made.ok()) {
    Note(made.status());
    return {};
  }
  PointSource(state, state.update);
  DeviceUpdate update = UpdateOf(state);
  update.arrays = Arrays(state, *state.source, parameters, moment, variance);
  std::vector<Movement::Use> reads = {{state.source.get(), generation_}}, writes;
  for (VersionedBuffer* buffer : {&parameters, &moment, &variance}) {
    reads.push_back({buffer, state.stamp});
    writes.push_back({buffer, stamp});
  }
  update.arrays.shadow = state.update.shadow.data();
  return movement_.Compute([this, update](void* stream) { return device_(update, stream); },
                           std::move(reads), std::move(writes), {loaded, *made});
}

void InterleavedAdamW::RunHost(size_t waiting_max) {
  while (!waiting_.empty()) {
    State& state = subgroups_[waiting_.front()];
    if (waiting_.size() <= waiting_max && !movement_.Done(state.flush)) return;
    waiting_.pop_front();
    state.waits = false;
    if (status_.ok()) Note(UpdateOnHost(state));
  }
}

absl::Status InterleavedAdamW::UpdateOnHost(State& state) {
  LH_RETURN_IF_ERROR(movement_.Wait(state.flush, "gradients on their way to the host"));
  LH_RETURN_IF_ERROR(Movement::Expect({state.gradients.get(), generation_}));
  for (const Buffer* buffer : {&state.parameters, &state.moment, &state.variance})
    LH_RETURN_IF_ERROR(Movement::Expect({buffer->get(), state.stamp}));
  AdamWArrays arrays =
      Arrays(state, *state.gradients, *state.parameters, *state.moment, *state.variance);
  ShadowSlot* const shadow =
      options_.shadow ? &shadows_[next_shadow_++ % shadows_.size()] : nullptr;
  if (shadow != nullptr) {
    LH_RETURN_IF_ERROR(movement_.Wait(shadow->free, "an earlier shadow on its way up"));
    arrays.shadow = shadow->buffer->as<uint16_t>();
  }
  DeviceUpdate update = UpdateOf(state);
  update.arrays = arrays;
  if (IsMatrix(options_, state.shape)) {
    LH_RETURN_IF_ERROR(options_.matrices(update));
  } else {
    AdamWKernel(MakeAdamWConstants(update.options, update.update, update.count, update.decay),
                update.elements, arrays, team_);
  }
  state.stamp = ++stamps_;
  for (const Buffer* buffer : {&state.parameters, &state.moment, &state.variance})
    (*buffer)->SetVersion(state.stamp);
  if (shadow == nullptr) return absl::OkStatus();
  const int64_t bytes = state.shape.elements * kNarrow;
  Point(state.shadow, "the shadow", MemorySide::kDevice, state.update.shadow.data(), bytes, 0);
  shadow->buffer->SetVersion(state.stamp);
  shadow->free = movement_.Copy(kWeightsUp, {shadow->buffer.get(), state.stamp},
                                {state.shadow.get(), state.stamp}, bytes);
  state.settled = shadow->free;
  return absl::OkStatus();
}

bool InterleavedAdamW::Settled(int subgroup) const {
  const State& state = subgroups_[subgroup];
  return !state.waits && movement_.Done(state.settled);
}

absl::Status InterleavedAdamW::Finish() {
  RunHost(0);
  for (const State& state : subgroups_) {
    if (status_.ok()) Note(movement_.Wait(state.settled, "the interleaved update"));
  }
  ++generation_;
  return std::exchange(status_, absl::OkStatus());
}

InterleavedAdamW::StatePart InterleavedAdamW::PartOf(OptimizerState state, int subgroup,
                                                     int64_t first, size_t count) const {
  const State& kept = subgroups_[subgroup];
  const VersionedBuffer& buffer = state == OptimizerState::kMoment ? *kept.moment : *kept.variance;
  const int64_t size = SizesOf(options_, kept.shape).moment;
  return {buffer.side(), size == kFloat, buffer.memory().subspan(first * size, count * size)};
}

absl::Status InterleavedAdamW::Transfer(MoveQueue queue, const StatePart& part,
                                        std::vector<std::byte>& host) const {
  const bool up = queue.direction == Direction::kUp;
  if (part.side == MemorySide::kHost) {
    if (up) {
      std::copy(host.begin(), host.end(), part.memory.begin());
    } else {
      std::copy(part.memory.begin(), part.memory.end(), host.begin());
    }
    return absl::OkStatus();
  }
  const auto staged = std::make_shared<StagedState>(std::move(host), part.memory);
  const Movement::Use here{&staged->here, 0}, there{&staged->there, 0};
  const MoveToken copied =
      movement_.Copy(queue, up ? here : there, up ? there : here, staged->here.bytes());
  absl::Status done = movement_.Wait(
      copied, up ? "writing the optimizer's state" : "reading the optimizer's state");
  if (!done.ok()) {
    movement_.Keep(staged);
    return done;
  }
  host = std::move(staged->host);
  return absl::OkStatus();
}

absl::Status InterleavedAdamW::ReadState(OptimizerState state, int subgroup, int64_t first,
                                         absl::Span<float> values) const {
  const StatePart part = PartOf(state, subgroup, first, values.size());
  std::vector<std::byte> host(part.memory.size());
  LH_RETURN_IF_ERROR(Transfer(kStateDown, part, host));
  if (part.wide) {
    std::copy(host.begin(), host.end(), reinterpret_cast<std::byte*>(values.data()));
    return absl::OkStatus();
  }
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, &host[i * kNarrow], kNarrow);
    values[i] = FromBfloat16(bits);
  }
  return absl::OkStatus();
}

absl::Status InterleavedAdamW::WriteState(OptimizerState state, int subgroup, int64_t first,
                                          absl::Span<const float> values) {
  LH_RETURN_IF_ERROR(BeginWrite(subgroup));
  const StatePart part = PartOf(state, subgroup, first, values.size());
  std::vector<std::byte> host(part.memory.size());
  if (part.wide) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(values.data());
    std::copy(bytes, bytes + host.size(), host.begin());
  } else {
    for (size_t i = 0; i < values.size(); ++i) {
      const uint16_t bits = ToBfloat16(values[i]);
      std::memcpy(&host[i * kNarrow], &bits, kNarrow);
    }
  }
  return Transfer(kStateUp, part, host);
}

int64_t InterleavedAdamW::state_bytes() const {
  int64_t bytes = 0;
  for (const State& state : subgroups_) {
    const MomentSizes sizes = SizesOf(options_, state.shape);
    bytes += state.shape.elements * (sizes.moment + sizes.variance);
  }
  return bytes;
}

}  // namespace longhaul
