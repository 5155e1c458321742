// For LD_PRELOAD: a file system that cannot sync folders, as SMB and shared folders of virtual
// machines. With the variable NO_FILE_LOCKS it has no file locks either, as Lustre without flock;
// with NO_RECORD_LOCKS, an errno, no locks of parts of files, as NFS without its lock service.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>

extern "C" int fsync(int file) {
  struct stat info;
  if (fstat(file, &info) == 0 && S_ISDIR(info.st_mode)) {
    errno = EINVAL;
    return -1;
  }
  static const auto real = reinterpret_cast<int (*)(int)>(dlsym(RTLD_NEXT, "fsync"));
  return real(file);
}

namespace {

int Control(const char* name, int file, int command, void* argument) {
  const char* const error = getenv("NO_RECORD_LOCKS");
  if (error != nullptr && (command == F_SETLK || command == F_SETLKW || command == F_GETLK)) {
    errno = atoi(error);
    return -1;
  }
  const auto real = reinterpret_cast<int (*)(int, int, ...)>(dlsym(RTLD_NEXT, name));
  return real(file, command, argument);
}

}  // namespace

// The argument is a number or a pointer; both are passed on as the one.
extern "C" int fcntl(int file, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  return Control("fcntl", file, command, argument);
}
extern "C" int fcntl64(int file, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  return Control("fcntl64", file, command, argument);
}

extern "C" int flock(int file, int operation) {
  if (getenv("NO_FILE_LOCKS") != nullptr) {
    errno = ENOSYS;
    return -1;
  }
  static const auto real = reinterpret_cast<int (*)(int, int)>(dlsym(RTLD_NEXT, "flock"));
  return real(file, operation);
}
