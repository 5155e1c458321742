// For LD_PRELOAD: a disk that hangs, as a network file system whose server is away. While the file
// that the variable HANGING_DISK names is there, writes, syncs and renames of files whose path has
// its text stand still.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

namespace {

template <typename Function>
Function* Real(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

void HangIfWanted(const char* path) {
  const char* const flag = getenv("HANGING_DISK");
  if (flag == nullptr) return;
  while (true) {
    const int file = open(flag, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    char text[256] = {};
    const ssize_t size = read(file, text, sizeof(text) - 1);
    close(file);
    if (size <= 0 || strstr(path, text) == nullptr) return;
    usleep(20'000);
  }
}

void HangIfWanted(int descriptor) {
  char link[64], path[4096] = {};
  snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
  if (readlink(link, path, sizeof(path) - 1) > 0) HangIfWanted(path);
}

}  // namespace

extern "C" {

ssize_t pwrite64(int descriptor, const void* bytes, size_t size, off64_t offset) {
  static auto* const real = Real(&pwrite64, "pwrite64");
  HangIfWanted(descriptor);
  return real(descriptor, bytes, size, offset);
}
ssize_t pwrite(int descriptor, const void* bytes, size_t size, off_t offset) {
  static auto* const real = Real(&pwrite, "pwrite");
  HangIfWanted(descriptor);
  return real(descriptor, bytes, size, offset);
}
ssize_t write(int descriptor, const void* bytes, size_t size) {
  static auto* const real = Real(&write, "write");
  HangIfWanted(descriptor);
  return real(descriptor, bytes, size);
}
int fsync(int descriptor) {
  static auto* const real = Real(&fsync, "fsync");
  HangIfWanted(descriptor);
  return real(descriptor);
}
int fdatasync(int descriptor) {
  static auto* const real = Real(&fdatasync, "fdatasync");
  HangIfWanted(descriptor);
  return real(descriptor);
}
int rename(const char* from, const char* to) {
  static auto* const real = Real(&rename, "rename");
  HangIfWanted(to);
  return real(from, to);
}

}  // extern "C"
