// What bounds the lists of answers, since gRPC takes no message above 4 MiB. Pure.
#pragma once

#include <cstddef>

#include "google/protobuf/repeated_field.h"

namespace longhaul::coordinator {

// Half of what gRPC takes in one message.
inline constexpr size_t kPageBytesMax = 2 << 20;

template <typename Message>
size_t BytesOf(const google::protobuf::RepeatedPtrField<Message>& list) {
  size_t bytes = 0;
  for (const Message& item : list) bytes += item.ByteSizeLong();
  return bytes;
}

// Keeps the first items, as many as have at most so many bytes together. Returns how many it left
// out.
template <typename Message>
int KeepWithin(size_t bytes_max, google::protobuf::RepeatedPtrField<Message>* list) {
  int kept = 0;
  for (size_t bytes = 0; kept < list->size(); ++kept) {
    bytes += list->Get(kept).ByteSizeLong();
    if (bytes > bytes_max) break;
  }
  const int left_out = list->size() - kept;
  list->DeleteSubrange(kept, left_out);
  return left_out;
}

}  // namespace longhaul::coordinator
