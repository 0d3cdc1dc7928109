# ZeroMQ and its C++ header: the target yotta_zmq, which is empty where they are not installed. It
# defines nothing: when ZeroMQ comes, compiled/transports.cpp is compiled again, and nothing else.
if(TARGET yotta_zmq)
  return()
endif()
find_path(YOTTA_ZMQ_INCLUDE zmq.hpp)
find_path(YOTTA_ZMQ_C_INCLUDE zmq.h)
find_library(YOTTA_ZMQ_LIBRARY zmq)
add_library(yotta_zmq INTERFACE)
if(YOTTA_ZMQ_INCLUDE AND YOTTA_ZMQ_C_INCLUDE AND YOTTA_ZMQ_LIBRARY)
  target_include_directories(yotta_zmq SYSTEM INTERFACE ${YOTTA_ZMQ_INCLUDE} ${YOTTA_ZMQ_C_INCLUDE})
  target_link_libraries(yotta_zmq INTERFACE ${YOTTA_ZMQ_LIBRARY})
  set(YOTTA_ZMQ ON)
endif()
