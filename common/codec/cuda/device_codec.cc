#include "common/codec/cuda/device_codec.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace longhaul {

using cuda::DecodeJob;
using cuda::EncodeJob;
using cuda::EncodeReport;
using Memory = DeviceRuntime::Memory;
using Queue = DeviceRuntime::Queue;

// Consecutive segments that go through the staging memory together.
struct DeviceCodec::Piece {
  // Its segments.
  int first = 0, count = 0;
  // Its range of the local arrays.
  int64_t begin = 0, end = 0;
  // Its range of `out`.
  int64_t payload_offset = 0, payload_bytes = 0;
};

struct DeviceCodec::Pieces {
  std::vector<Piece> pieces;
  // Of the largest ones.
  int64_t payload_bytes_max = 0, elements_max = 0;
};

namespace {

constexpr auto kCodec = Queue::kCodec;

}  // namespace

DeviceCodec::DeviceCodec(std::shared_ptr<DeviceRuntime> runtime)
    : runtime_(std::move(runtime)),
      device_memory_(MemoryStore::Make(runtime_, Memory::kDevice)),
      pinned_memory_(MemoryStore::Make(runtime_, Memory::kPinnedHost)) {}

absl::StatusOr<DeviceFloats> DeviceCodec::AllocateFloats(int64_t count) {
  LH_ASSIGN_OR_RETURN(std::shared_ptr<uint8_t> bytes,
                      device_memory_->Take(std::max<int64_t>(1, count) * sizeof(float)));
  float* const floats = reinterpret_cast<float*>(bytes.get());
  return DeviceFloats(std::move(bytes), floats);
}

absl::StatusOr<std::shared_ptr<uint8_t>> DeviceCodec::AllocatePinned(int64_t bytes) {
  return pinned_memory_->Take(std::max<int64_t>(1, bytes));
}

absl::StatusOr<std::vector<EncodeReport>> DeviceCodec::Encode(const Codec& codec,
                                                              const Input& input, uint8_t* out) {
  if (input.segments.empty()) return std::vector<EncodeReport>();
  absl::MutexLock lock(&mutex_);
  return EncodeLocked(codec, input, out);
}

DeviceCodec::Pieces DeviceCodec::CutIntoPieces(const Codec& codec, const Input& input) {
  Pieces cut;
  int64_t offset = 0;
  for (size_t i = 0; i < input.segments.size(); ++i) {
    const Segment& segment = input.segments[i];
    const int64_t bytes = codec.PayloadBytes(segment.elements);
    const int64_t end = segment.offset + segment.elements;
    if (cut.pieces.empty() || end - cut.pieces.back().begin > kPieceElements) {
      cut.pieces.push_back(
          {.first = static_cast<int>(i), .begin = segment.offset, .payload_offset = offset});
    }
    Piece& piece = cut.pieces.back();
    ++piece.count;
    piece.end = end;
    piece.payload_bytes += bytes;
    offset += bytes;
    cut.payload_bytes_max = std::max(cut.payload_bytes_max, piece.payload_bytes);
    cut.elements_max = std::max(cut.elements_max, piece.end - piece.begin);
  }
  return cut;
}

void DeviceCodec::FillJobs(const Codec& codec, const Input& input, const Piece& piece,
                           const float* staged, uint8_t* payload, EncodeJob* jobs) {
  for (int i = piece.first; i < piece.first + piece.count; ++i) {
    const Segment& segment = input.segments[i];
    const auto part = [&](auto* values) {
      return values == nullptr ? nullptr : values + segment.offset;
    };
    jobs[i] = {
        .values = staged != nullptr ? staged + (segment.offset - piece.begin) : part(input.values),
        .minus = part(input.minus),
        .error = part(input.error),
        .lost = part(input.lost),
        .out = payload,
        .noise_key = segment.noise.key,
        .noise_first_block = segment.noise.first_block,
        .elements = segment.elements};
    payload += codec.PayloadBytes(segment.elements);
  }
}

absl::StatusOr<std::vector<EncodeReport>> DeviceCodec::EncodeLocked(const Codec& codec,
                                                                    const Input& input,
                                                                    uint8_t* out) {
  const int64_t count = input.segments.size();
  const bool upload = !input.host_values.empty();
  const Pieces cut = CutIntoPieces(codec, input);
  const int64_t job_bytes = count * sizeof(EncodeJob), report_bytes = count * sizeof(EncodeReport);
  LH_ASSIGN_OR_RETURN(const auto host, pinned_memory_->Take(job_bytes + report_bytes));
  LH_ASSIGN_OR_RETURN(const auto device, device_memory_->Take(job_bytes + report_bytes));
  LH_ASSIGN_OR_RETURN(const auto payload, device_memory_->Take(cut.payload_bytes_max));
  DeviceFloats staged;
  if (upload) {
    LH_ASSIGN_OR_RETURN(staged, AllocateFloats(cut.elements_max));
  }
  auto* const jobs = reinterpret_cast<EncodeJob*>(host.get());
  for (const Piece& piece : cut.pieces)
    FillJobs(codec, input, piece, staged.get(), payload.get(), jobs);
  const auto* const device_jobs = reinterpret_cast<const EncodeJob*>(device.get());
  auto* const device_reports = reinterpret_cast<EncodeReport*>(device.get() + job_bytes);
  auto* const reports = reinterpret_cast<EncodeReport*>(host.get() + job_bytes);
  const auto enqueue = [&]() -> absl::Status {
    LH_RETURN_IF_ERROR(runtime_->Copy(kCodec, device.get(), jobs, job_bytes));
    for (const Piece& piece : cut.pieces) {
      if (upload) {
        LH_RETURN_IF_ERROR(runtime_->Copy(kCodec, staged.get(),
                                          input.host_values.data() + piece.begin,
                                          (piece.end - piece.begin) * sizeof(float)));
      }
      LH_RETURN_IF_ERROR(runtime_->Encode(codec.options(), device_jobs + piece.first,
                                          device_reports + piece.first, piece.count));
      LH_RETURN_IF_ERROR(
          runtime_->Copy(kCodec, out + piece.payload_offset, payload.get(), piece.payload_bytes));
    }
    return runtime_->Copy(kCodec, reports, device_reports, report_bytes);
  };
  const absl::Status enqueued = enqueue();
  // Wait also after an error, since works that were enqueued use the memory above.
  const absl::Status done = runtime_->Wait();
  LH_RETURN_IF_ERROR(enqueued);
  LH_RETURN_IF_ERROR(done);
  return std::vector<EncodeReport>(reports, reports + count);
}

absl::Status DeviceCodec::Decode(CodecKind kind, const DecodeJob& job, float weight,
                                 bool accumulate) {
  absl::MutexLock lock(&mutex_);
  LH_ASSIGN_OR_RETURN(const auto host, pinned_memory_->Take(sizeof(DecodeJob)));
  LH_ASSIGN_OR_RETURN(const auto device, device_memory_->Take(sizeof(DecodeJob)));
  *reinterpret_cast<DecodeJob*>(host.get()) = job;
  absl::Status status = runtime_->Copy(kCodec, device.get(), host.get(), sizeof(DecodeJob));
  if (status.ok()) {
    status = runtime_->Decode(kind, reinterpret_cast<const DecodeJob*>(device.get()), 1, weight,
                              accumulate);
  }
  const absl::Status done = runtime_->Wait();
  return status.ok() ? done : status;
}

absl::Status DeviceCodec::Upload(absl::Span<const float> from, float* to) {
  absl::MutexLock lock(&mutex_);
  const absl::Status status =
      runtime_->Copy(kCodec, to, from.data(), static_cast<int64_t>(from.size() * sizeof(float)));
  const absl::Status done = runtime_->Wait();
  return status.ok() ? done : status;
}

absl::Status DeviceCodec::Download(const float* from, absl::Span<float> to) {
  absl::MutexLock lock(&mutex_);
  const absl::Status status =
      runtime_->Copy(kCodec, to.data(), from, static_cast<int64_t>(to.size() * sizeof(float)));
  const absl::Status done = runtime_->Wait();
  return status.ok() ? done : status;
}

absl::Status DeviceCodec::Zero(float* values, int64_t count) {
  absl::MutexLock lock(&mutex_);
  const absl::Status status =
      runtime_->Zero(kCodec, values, count * static_cast<int64_t>(sizeof(float)));
  const absl::Status done = runtime_->Wait();
  return status.ok() ? done : status;
}

}  // namespace longhaul
