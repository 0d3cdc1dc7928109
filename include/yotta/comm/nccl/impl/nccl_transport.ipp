// The bodies of comm/nccl/nccl_transport.hpp.
#pragma once

#include "yotta/comm/nccl/nccl_transport.hpp"

#include "yotta/core/options.hpp"

namespace yotta {

YOTTA_INLINE NcclTransport::NcclTransport(std::shared_ptr<Transport> inner,
                                          std::shared_ptr<NcclLibrary> nccl, double timeout,
                                          Where where)
    : inner_(std::move(inner)),
      timeout_(timeout),
      bootstrap_(std::make_shared<NcclBootstrap>(inner_)),
      lanes_(inner_->rank(), bootstrap_, std::move(nccl), where),
      messages_(inner_->rank(), inner_->size(), bootstrap_, lanes_) {
  check_number(where, "NcclOptions::timeout", timeout, above_zero_or_endless);
  for (int r = 0; r < inner_->size(); ++r) groups_[0].members.push_back(r);
}
YOTTA_INLINE NcclTransport::~NcclTransport() { lanes_.leave_all(inner_->failed()); }

}  // namespace yotta
