#pragma once

#include "net/prefix.h"

namespace uroce::net {

/// The way to what lies inside a prefix, by a router on our link.
struct Route {
  Prefix to;  // both of one family
  Gid via;
};

}  // namespace uroce::net
