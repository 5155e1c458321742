// rpc_headers.h for tests, precompiled for them (longhaul_headers).
#pragma once

#include "common/rpc/rpc_headers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
