// A piece of memory of one side, with the version of its content. Versions are numbers that the
// users choose. A reader names the version that it expects (Movement). Versions are atomic; the
// content is ordered by Movement's tokens.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/types/span.h"

namespace longhaul {

// Host memory is pinned where the device can read it directly.
enum class MemorySide { kHost, kDevice };

class VersionedBuffer {
 public:
  // `owner` keeps the memory alive. Null: the caller does, for longer than the last use of the
  // buffer.
  VersionedBuffer(std::string name, MemorySide side, absl::Span<std::byte> memory,
                  std::shared_ptr<void> owner = nullptr)
      : name_(std::move(name)), side_(side), memory_(memory), owner_(std::move(owner)) {}
  VersionedBuffer(const VersionedBuffer&) = delete;

  const std::string& name() const { return name_; }
  MemorySide side() const { return side_; }
  absl::Span<std::byte> memory() const { return memory_; }
  int64_t bytes() const { return static_cast<int64_t>(memory_.size()); }
  // Null if the buffer is empty.
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(memory_.data());
  }

  // The version once everything that was submitted is done.
  int64_t promised() const { return promised_; }
  // The version now, where the implementation runs works itself. Otherwise the same as promised().
  int64_t version() const { return version_; }
  // For changes outside of Movement, by the host or on the device. No work may use the buffer
  // meanwhile.
  void SetVersion(int64_t version) { promised_ = version_ = version; }

 private:
  friend class Movement;
  const std::string name_;
  const MemorySide side_;
  const absl::Span<std::byte> memory_;
  const std::shared_ptr<void> owner_;
  std::atomic<int64_t> promised_{0}, version_{0};
};

}  // namespace longhaul
