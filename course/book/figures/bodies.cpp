// What the figures need of the library's compiled part and of {fmt}'s, for WebAssembly. What
// none of them calls is left out when it is linked.
#ifndef FMT_HEADER_ONLY
#include <fmt/format-inl.h>
#endif

#include "yotta/core/impl/error.ipp"
#include "yotta/core/impl/tensor.ipp"
#include "yotta/machine/impl/chip.ipp"
#include "yotta/sharding/spreads/impl/boxes.ipp"
#include "yotta/sharding/spreads/impl/spread_graph.ipp"

#ifndef FMT_HEADER_ONLY
// The templates of {fmt} that its headers only declare: what its own library has, for char.
FMT_BEGIN_NAMESPACE
namespace detail {
template dragonbox::decimal_fp<float> dragonbox::to_decimal(float) noexcept;
template dragonbox::decimal_fp<double> dragonbox::to_decimal(double) noexcept;
template thousands_sep_result<char> thousands_sep_impl(locale_ref);
template char decimal_point_impl(locale_ref);
template void buffer<char>::append(const char*, const char*);
template void vformat_to(buffer<char>&, string_view, basic_format_args<FMT_BUFFER_CONTEXT(char)>,
                         locale_ref);
}  // namespace detail
FMT_END_NAMESPACE
#endif
