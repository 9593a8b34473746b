"""libmuster by ctypes: finding it, and every call declared once. What is built on it is the rest of the package.

A call releases the interpreter's lock for as long as it takes. `lib.muster_X` is the C call with its types bound, so
that nothing is converted but what it is given: handles are ints, keys and values bytes with their lengths beside.
`borrow()` is what a call writes into, until `give_back()`. Statuses are plain ints: 0 is good, for others raise
`errors.error_of(status)` from the same thread before its next call.
"""
from __future__ import annotations

import ctypes
import operator
import os
import sys
from ctypes import (CFUNCTYPE, POINTER, Structure, byref, c_char, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t,
                    c_ssize_t, c_ubyte, c_uint32, c_uint64, c_void_p)

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes long to import
    from typing import Any, Iterator, List, Optional, Tuple

SONAME = "libmuster.so.0"
FOREVER = (1 << 64) - 1
NEXT = (1 << 64) - 1  # MUSTER_BARRIER_NEXT
SCRATCH = 4096

(OK, CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED,
 RESOURCE_EXHAUSTED, FAILED_PRECONDITION, ABORTED, OUT_OF_RANGE, UNIMPLEMENTED, INTERNAL, UNAVAILABLE,
 DATA_LOSS) = range(16)

JOIN_RECOVERABLE, JOIN_NO_HEARTBEAT, JOIN_OBSERVER, JOIN_READ_ONLY, JOIN_NO_CREATE, JOIN_TRANSIENT, JOIN_WORKER = (
    0x1, 0x2, 0x4, 0x8, 0x10, 0x20, 0x40)


class SegmentConfig(Structure):
    _fields_ = [("num_tasks", c_uint32), ("num_slots", c_uint32), ("num_buckets", c_uint32), ("num_events", c_uint32),
                ("heap_bytes", c_uint64), ("heartbeat_timeout_ns", c_uint64), ("memfd", c_int),
                ("trace_events", c_uint32), ("listened", c_int),
                ("object_bytes", c_uint64)]


class Options(Structure):
    _fields_ = [("job", c_char_p), ("task_id", c_int32), ("num_tasks", c_uint32), ("flags", c_uint32),
                ("incarnation", c_uint64), ("heartbeat_period_ns", c_uint64), ("config", POINTER(SegmentConfig)),
                ("deadline", c_uint64)]


class KvEntry(Structure):
    _fields_ = [("key", c_void_p), ("key_len", c_size_t), ("value", c_void_p), ("value_len", c_size_t),
                ("version", c_uint64)]


class KvList(Structure):
    _fields_ = [("entries", POINTER(KvEntry)), ("count", c_size_t)]


class TaskInfo(Structure):
    _fields_ = [("task_id", c_int32), ("state", c_int), ("cause", c_int), ("error", c_int), ("recoverable", c_int),
                ("alive", c_int), ("pid", c_uint32), ("attempt", c_uint32), ("incarnation", c_uint64),
                ("since_ns", c_uint64), ("heartbeats", c_uint64), ("host", c_char * 64), ("message", c_char * 256),
                ("waiting", c_char * 96), ("waiting_since_ns", c_uint64), ("guest", c_int),
                ("ended", c_int), ("wait_status", c_int)]


class ErrorInfo(Structure):
    _fields_ = [("task_id", c_int32), ("code", c_int), ("cause", c_int), ("pid", c_uint32), ("incarnation", c_uint64),
                ("since_ns", c_uint64), ("host", c_char * 64), ("message", c_char * 256)]


class Membership(Structure):
    _fields_ = [("epoch", c_uint64), ("change", c_uint64), ("phase", c_int), ("outcome", c_int), ("size", c_uint32),
                ("capacity", c_uint32), ("least", c_uint32), ("most", c_uint32), ("role", c_int32), ("rank", c_int32),
                ("role_size", c_uint32), ("deadline", c_uint64), ("since_ns", c_uint64), ("version", c_uint64),
                ("text", c_char * 448)]


class EventInfo(Structure):
    _fields_ = [("sequence", c_uint64), ("time_ns", c_uint64), ("task_id", c_int32), ("type", c_uint32),
                ("len", c_size_t)]


class BarrierInfo(Structure):
    _fields_ = [("id", c_char * 513), ("counter", c_uint64), ("passed", c_int), ("result", c_int),
                ("participants", c_uint32), ("arrived", c_uint32), ("missing", c_int32 * 16),
                ("missing_count", c_uint32), ("deadline_ns", c_uint64), ("since_ns", c_uint64)]


class NcclOptions(Structure):
    _fields_ = [("expiry_ns", c_uint64), ("ranks_per_root", c_uint32), ("flags", c_uint32), ("config", c_void_p)]


class Local(Structure):
    _fields_ = [("process_id", c_int32), ("boot_id", c_char_p), ("network_nodes", c_char_p),
                ("devices", POINTER(c_uint32)), ("num_devices", c_size_t), ("has_partition_index", c_int),
                ("partition_index", c_int32)]


class ObjectRoom(Structure):
    _fields_ = [("data", c_void_p), ("len", c_size_t), ("meta", c_void_p), ("meta_len", c_size_t)]


class ObjectView(Structure):
    _fields_ = [("object", c_uint64), ("data", c_void_p), ("len", c_size_t), ("meta", c_void_p), ("meta_len", c_size_t)]


class ObjectInfo(Structure):
    _fields_ = [("object", c_uint64), ("task", c_int32), ("sealed", c_int), ("code", c_int), ("len", c_uint64),
                ("meta_len", c_uint64), ("holders", c_uint32)]


class FunctionText(Structure):
    _fields_ = [("name", c_char_p), ("kind", c_uint32), ("num_results", c_uint32), ("max_retries", c_uint32),
                ("library", c_char_p), ("symbol", c_char_p), ("code", c_void_p), ("code_len", c_size_t)]


class FunctionInfo(Structure):
    _fields_ = [("function", c_uint64), ("number", c_uint64), ("kind", c_uint32), ("num_results", c_uint32),
                ("max_retries", c_uint32), ("task", c_int32), ("code", c_uint64), ("name", c_char * 256),
                ("symbol", c_char * 256), ("library", c_char * 1024)]


class Argument(Structure):
    _fields_ = [("object", c_uint64), ("data", c_char_p), ("len", c_size_t)]


class Resource(Structure):
    _fields_ = [("name", c_char_p), ("amount", c_double)]


class ResourceLook(Structure):
    _fields_ = [("name", c_char * 32), ("total", c_double), ("lent", c_double), ("units", c_char * 2048)]


class SubmitOptions(Structure):
    _fields_ = [("deadline", c_uint64), ("max_retries", c_int32), ("place", c_uint64), ("resources", POINTER(Resource)),
                ("num_resources", c_uint32)]


class CallInfo(Structure):
    _fields_ = [("function", c_uint64), ("result", c_uint64), ("num_arguments", c_uint32), ("num_results", c_uint32),
                ("retries_left", c_uint32), ("task", c_int32), ("place", c_uint64)]


class CallLook(Structure):
    _fields_ = [("result", c_uint64), ("state", c_int), ("function", c_uint64), ("name", c_char * 256), ("task", c_int32),
                ("pid", c_uint32), ("waits_for", c_uint64), ("code", c_int), ("text", c_char * 256)]


class QueueOptions(Structure):
    _fields_ = [("depth", c_uint32), ("readers", c_uint32), ("max_bytes", c_uint64)]


class QueueMessage(Structure):
    _fields_ = [("data", c_void_p), ("len", c_size_t), ("number", c_uint64), ("object", c_uint64)]


class PsConfig(Structure):
    _fields_ = [("type", c_int), ("num_dims", c_uint32), ("dims", c_uint64 * 8), ("rows", c_uint64),
                ("shards", c_uint32), ("pushers", c_uint32), ("staleness", c_uint32), ("flags", c_uint32),
                ("optimizer", c_int), ("rate", c_double), ("momentum", c_double), ("beta2", c_double),
                ("epsilon", c_double)]


class PsInfo(Structure):
    _fields_ = [("config", PsConfig), ("count", c_uint64), ("bytes", c_uint64), ("version", c_uint64),
                ("steps", c_uint64), ("rows", c_uint64), ("kept", c_uint32)]


class CheckpointTensor(Structure):
    _fields_ = [("name", c_char_p), ("dtype", c_char_p), ("num_dims", c_uint32), ("shape", c_uint64 * 8),
                ("data", c_void_p), ("len", c_size_t)]


class CheckpointInfo(Structure):
    _fields_ = [("generation", c_uint64), ("step", c_uint64), ("ranks", c_uint32), ("job_ranks", c_uint32),
                ("rank", c_int32), ("saved", c_uint64)]


class CheckpointView(Structure):
    _fields_ = [("generation", c_uint64), ("step", c_uint64), ("rank", c_uint32), ("ranks", c_uint32),
                ("tensors", POINTER(CheckpointTensor)), ("count", c_size_t), ("own", c_void_p)]


VISIT_BARRIER = CFUNCTYPE(c_int, c_void_p, POINTER(BarrierInfo))
VISIT_RESOURCE = CFUNCTYPE(c_int, c_void_p, POINTER(ResourceLook))
VISIT_OBJECT = CFUNCTYPE(c_int, c_void_p, POINTER(ObjectInfo))

_H = c_void_p  # a handle: an int, or None
_KEY = (c_char_p, c_size_t)
_IDS = (POINTER(c_int32), c_size_t)
_OBJECTS = (POINTER(c_uint64), c_size_t)
_U64, _I64, _SIZE = POINTER(c_uint64), POINTER(c_int64), POINTER(c_size_t)
_OUT = (c_void_p, c_size_t, _SIZE, _U64)  # buffer, capacity, length, version

# name: (what it returns, what it takes)
CALLS: "dict[str, Tuple[Any, Tuple[Any, ...]]]" = {
    "muster_version": (c_char_p, ()),
    "muster_status_name": (c_char_p, (c_int,)),
    "muster_last_error": (c_char_p, ()),
    "muster_now_ns": (c_uint64, ()),
    "muster_after_ns": (c_uint64, (c_uint64,)),
    "muster_options_init": (None, (POINTER(Options),)),
    "muster_segment_remove": (c_int, (c_char_p,)),
    "muster_join": (c_int, (POINTER(Options), POINTER(c_void_p))),
    "muster_leave": (c_int, (_H,)),
    "muster_job": (c_char_p, (_H,)),
    "muster_task_id": (c_int32, (_H,)),
    "muster_num_tasks": (c_uint32, (_H,)),
    "muster_incarnation": (c_uint64, (_H,)),
    "muster_thread_detach": (None, (_H,)),
    "muster_interrupt": (None, (_H,)),
    "muster_resume": (None, (_H,)),
    "muster_heartbeat": (c_int, (_H,)),
    "muster_task_get": (c_int, (_H, c_int32, POINTER(TaskInfo))),
    "muster_task_list": (c_int, (_H, POINTER(TaskInfo), c_size_t, _SIZE, _U64)),
    "muster_task_watch": (c_int, (_H, c_uint64, c_uint64, POINTER(TaskInfo), c_size_t, _SIZE, _U64)),
    "muster_task_reset": (c_int, (_H, c_int32)),
    "muster_task_alive": (c_int, (_H,) + _IDS + (c_uint64, POINTER(c_int32), _U64, _SIZE)),
    "muster_death_wait": (c_int, (_H, c_uint64, _SIZE)),
    "muster_error_report": (c_int, (_H, c_int32, c_int, c_char_p)),
    "muster_error_wait": (c_int, (_H, c_uint64, POINTER(ErrorInfo))),
    "muster_kv_insert": (c_int, (_H,) + _KEY + (c_char_p, c_size_t)),
    "muster_kv_set": (c_int, (_H,) + _KEY + (c_char_p, c_size_t, _U64)),
    "muster_kv_try_get": (c_int, (_H,) + _KEY + _OUT),
    "muster_kv_get": (c_int, (_H,) + _KEY + (c_uint64,) + _OUT),
    "muster_kv_get_alloc": (c_int, (_H,) + _KEY + (c_uint64, POINTER(c_void_p), _SIZE, _U64)),
    "muster_kv_watch": (c_int, (_H,) + _KEY + (c_uint64, c_uint64) + _OUT),
    "muster_kv_increment": (c_int, (_H,) + _KEY + (c_int64, _I64)),
    "muster_kv_compare_and_set": (c_int, (_H,) + _KEY + (c_uint64, c_char_p, c_size_t, _U64)),
    "muster_kv_append": (c_int, (_H,) + _KEY + (c_char_p, c_size_t, _SIZE)),
    "muster_kv_delete": (c_int, (_H,) + _KEY + (_SIZE,)),
    "muster_kv_sync": (c_int, (_H, c_uint64)),
    "muster_kv_get_dir": (c_int, (_H,) + _KEY + (POINTER(POINTER(KvList)),)),
    "muster_kv_list_free": (None, (POINTER(KvList),)),
    "muster_kv_count": (c_int, (_H,) + _KEY + (_SIZE,)),
    "muster_barrier_wait": (c_int, (_H, c_char_p, c_uint64) + _IDS + (c_uint64, c_uint64)),
    "muster_barrier_cancel": (c_int, (_H, c_char_p, c_uint64)),
    "muster_barrier_list": (c_int, (_H, VISIT_BARRIER, c_void_p)),
    "muster_group_create": (c_int, (_H, c_char_p) + _IDS + (c_size_t, c_uint64, POINTER(c_void_p))),
    "muster_group_of_epoch": (c_int, (_H, POINTER(Membership), c_char_p, c_size_t, c_uint64, POINTER(c_void_p))),
    "muster_membership_next": (c_int, (_H, POINTER(Membership), c_uint64)),
    "muster_membership_changed": (c_int, (_H, POINTER(Membership))),
    "muster_group_free": (None, (_H,)),
    "muster_group_rank": (c_uint32, (_H,)),
    "muster_group_size": (c_uint32, (_H,)),
    "muster_group_barrier": (c_int, (_H, c_uint64)),
    "muster_group_broadcast": (c_int, (_H, c_uint32, c_void_p, c_size_t, c_uint64)),
    "muster_group_allgather": (c_int, (_H, c_void_p, c_size_t, c_void_p, c_uint64)),
    "muster_group_allreduce": (c_int, (_H, c_void_p, c_size_t, c_int, c_int, c_uint64)),
    "muster_group_missing": (c_int, (_H, POINTER(c_int32), c_size_t, _SIZE)),
    "muster_event_send": (c_int, (_H, c_uint32, c_char_p, c_size_t, _U64)),
    "muster_event_next": (c_int, (_H, _U64)),
    "muster_event_read": (c_int, (_H, _U64, c_uint64, POINTER(EventInfo), c_void_p, c_size_t, _U64)),
    "muster_object_create": (c_int, (_H, c_size_t, c_size_t, c_uint64, _U64, POINTER(ObjectRoom))),
    "muster_object_seal": (c_int, (_H, c_uint64)),
    "muster_object_fail": (c_int, (_H, c_uint64, c_int, c_char_p)),
    "muster_object_put": (c_int, (_H, c_char_p, c_size_t, c_char_p, c_size_t, c_uint64, _U64)),
    "muster_object_retain": (c_int, (_H,) + _OBJECTS + (_SIZE,)),
    "muster_object_drop": (c_int, (_H,) + _OBJECTS),
    "muster_object_get": (c_int, (_H,) + _OBJECTS + (c_uint64, POINTER(ObjectView), _SIZE)),
    "muster_object_unview": (None, (_H, POINTER(ObjectView), c_size_t)),
    "muster_object_wait": (c_int, (_H,) + _OBJECTS + (c_size_t, c_uint64, POINTER(c_ubyte), _SIZE)),
    "muster_queue_create": (c_int, (_H, POINTER(QueueOptions), POINTER(c_void_p), _U64)),
    "muster_queue_open": (c_int, (_H, c_uint64, POINTER(c_void_p))),
    "muster_queue_close": (c_int, (c_void_p,)),
    "muster_queue_wait": (c_int, (c_void_p, c_uint32, c_uint64)),
    "muster_queue_write": (c_int, (c_void_p, c_char_p, c_size_t, c_uint64)),
    "muster_queue_read": (c_int, (c_void_p, c_uint64, POINTER(QueueMessage))),
    "muster_object_info": (c_int, (_H, c_uint64, POINTER(ObjectInfo))),
    "muster_object_list": (c_int, (_H, VISIT_OBJECT, c_void_p)),
    "muster_checkpoint_open": (c_int, (_H, c_char_p, POINTER(c_void_p))),
    "muster_checkpoint_close": (None, (c_void_p,)),
    "muster_checkpoint_reserve": (c_int, (c_void_p, c_size_t)),
    "muster_checkpoint_begin": (c_int, (c_void_p, c_uint64, POINTER(CheckpointTensor), c_size_t, c_uint64)),
    "muster_checkpoint_copy": (c_int, (c_void_p, c_size_t, _SIZE)),
    "muster_checkpoint_commit": (c_int, (c_void_p, _U64)),
    "muster_checkpoint_wait": (c_int, (c_void_p, c_uint64, c_uint64)),
    "muster_checkpoint_info": (c_int, (c_void_p, POINTER(CheckpointInfo))),
    "muster_checkpoint_load": (c_int, (c_void_p, c_int32, POINTER(CheckpointView))),
    "muster_checkpoint_unload": (None, (POINTER(CheckpointView),)),
    "muster_ps_create": (c_int, (_H, c_char_p, POINTER(PsConfig), c_void_p, POINTER(c_void_p))),
    "muster_ps_open": (c_int, (_H, c_char_p, c_uint64, POINTER(c_void_p))),
    "muster_ps_close": (None, (_H,)),
    "muster_ps_info": (c_int, (_H, POINTER(PsInfo))),
    "muster_ps_set_rate": (c_int, (_H, c_double)),
    "muster_ps_push": (c_int, (_H, c_void_p, c_uint64, _U64)),
    "muster_ps_set": (c_int, (_H, c_void_p, _U64)),
    "muster_ps_pull": (c_int, (_H, c_void_p, _U64)),
    "muster_ps_view": (c_int, (_H, c_uint32, POINTER(ObjectView), _U64, _U64)),
    "muster_ps_wait": (c_int, (_H, c_uint64, c_uint64, _U64)),
    "muster_ps_rows_push": (c_int, (_H, c_void_p, c_size_t, c_void_p, _SIZE)),
    "muster_ps_rows_set": (c_int, (_H, c_void_p, c_size_t, c_void_p, _SIZE)),
    "muster_ps_rows_pull": (c_int, (_H, c_void_p, c_size_t, c_void_p, c_void_p)),
    "muster_ps_save": (c_int, (_H, c_char_p)),
    "muster_ps_load": (c_int, (_H, c_char_p)),
    "muster_function_export": (c_int, (_H, POINTER(FunctionText), _U64)),
    "muster_function_find": (c_int, (_H, c_char_p, _U64)),
    "muster_function_info": (c_int, (_H, c_uint64, POINTER(FunctionInfo))),
    "muster_submit": (c_int, (_H, c_uint64, POINTER(Argument), c_size_t, POINTER(SubmitOptions), _U64)),
    "muster_call_cancel": (c_int, (_H, c_uint64)),
    "muster_call_resource": (c_int, (_H, c_char_p, POINTER(c_double), c_void_p)),
    "muster_call_keep": (c_int, (_H,)),
    "muster_resource_offer": (c_int, (_H, c_char_p, c_double, c_char_p)),
    "muster_resource_list": (c_int, (_H, VISIT_RESOURCE, c_void_p)),
    "muster_call_look_at": (c_int, (_H, c_uint64, POINTER(CallLook))),
    "muster_object_detail": (c_int, (_H, c_uint64, _U64)),
    "muster_worker_next": (c_int, (_H, c_uint64, c_uint64, POINTER(c_void_p))),
    "muster_call_get": (None, (_H, POINTER(CallInfo))),
    "muster_call_argument": (c_int, (_H, c_uint32, POINTER(ObjectView))),
    "muster_call_result": (c_int, (_H, c_uint32, c_size_t, c_size_t, POINTER(ObjectRoom))),
    "muster_call_forward": (c_int, (_H, c_uint32, c_uint64)),
    "muster_call_done": (c_int, (_H,)),
    "muster_call_fail": (c_int, (_H, c_int, c_char_p, c_uint64)),
    "muster_place_open": (c_int, (_H, _U64)),
    "muster_place_close": (c_int, (_H, c_uint64, c_int, c_char_p)),
    "muster_nccl_version": (c_int, (POINTER(c_int),)),
    "muster_nccl_unique_id": (c_int, (_H, c_char_p, c_uint32, c_uint32, POINTER(NcclOptions), c_uint64, c_void_p,
                                      _U64)),
    "muster_topology_get": (c_int, (_H, POINTER(c_void_p))),
    "muster_topology_free": (None, (_H,)),
    "muster_topology_local": (c_int, (_H, POINTER(Local), c_int, POINTER(c_void_p), _SIZE)),
    "muster_topology_exchange": (c_int, (_H, c_char_p, c_int, c_char_p, c_size_t, c_uint64, POINTER(c_void_p), _SIZE)),
}


class LibraryNotFound(ImportError):
    """libmuster is not there, or is not the one that this package speaks to. The sentence says what to do."""


def _candidates() -> Iterator[str]:
    """Where the library may be, the likeliest first. A bare name is looked for by the loader: LD_LIBRARY_PATH, ldconfig."""
    here = os.path.dirname(os.path.abspath(__file__))
    yield os.path.join(here, SONAME)
    yield SONAME
    import shutil
    command = shutil.which("muster")
    if command:
        folder = os.path.dirname(os.path.realpath(command))
        yield os.path.join(folder, SONAME)
        yield os.path.join(os.path.dirname(folder), "lib", SONAME)
    yield os.path.join("/usr/local/lib", SONAME)
    yield os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(here))), "build", "release", SONAME)


def _declare(path: str) -> ctypes.CDLL:
    library = ctypes.CDLL(path)
    for name, (restype, argtypes) in CALLS.items():
        call = getattr(library, name)
        call.restype = restype
        call.argtypes = argtypes
    return library


def _open() -> Tuple[ctypes.CDLL, str]:
    if not sys.platform.startswith("linux") or sys.byteorder != "little" or ctypes.sizeof(c_void_p) != 8:
        raise LibraryNotFound("muster runs on Linux on little-endian 64-bit machines, not here")
    chosen = os.environ.get("MUSTER_LIBRARY")
    tried: List[str] = []
    for path in [chosen] if chosen else _candidates():
        if os.sep in path and not chosen and not os.path.exists(path):
            tried.append(path)
            continue
        try:
            library = _declare(path)
        except OSError as e:  # the loader's own words
            if os.sep in path or chosen:
                raise LibraryNotFound("%s cannot be loaded: %s; %s" % (
                    path, e, "MUSTER_LIBRARY names it" if chosen else "MUSTER_LIBRARY=PATH names another")) from None
            tried.append("the loader's folders")
            continue
        except AttributeError as e:
            raise LibraryNotFound("%s is not the libmuster that this package speaks to (%s): it needs %s, version 0.1 or "
                                  "newer; MUSTER_LIBRARY=PATH names another" % (path, e, SONAME)) from None
        version = library.muster_version().decode()
        if version.split(".")[0] != SONAME.rsplit(".", 1)[1]:
            raise LibraryNotFound("%s is version %s, and this package speaks to %s; MUSTER_LIBRARY=PATH names another" %
                                  (path, version, SONAME))
        return library, path
    raise LibraryNotFound("%s is not here; run `make && sudo make install && sudo ldconfig` in muster's source, or set "
                          "MUSTER_LIBRARY to its path (looked at: %s)" % (SONAME, ", ".join(tried)))


lib, path = _open()
_libc = ctypes.CDLL(None)
_libc.free.restype = None
_libc.free.argtypes = (c_void_p,)
free = _libc.free


class Out:
    """What a call writes into: a buffer for values and the out-parameters, with references."""
    __slots__ = ("buffer", "address", "len", "version", "number", "len_ref", "version_ref", "number_ref")

    def __init__(self) -> None:
        self.buffer: Any = ctypes.create_string_buffer(SCRATCH)  # a slice of it is bytes
        self.address = ctypes.addressof(self.buffer)
        self.len = c_size_t()
        self.version = c_uint64()
        self.number = c_int64()
        self.len_ref = byref(self.len)
        self.version_ref = byref(self.version)
        self.number_ref = byref(self.number)


_spare: List[Out] = []
give_back = _spare.append  # when all has been read; of a call that raises it is lost, which does no harm


def borrow() -> Out:
    """One that nobody else has: neither another thread, nor a signal's handler that runs in the midst of this call."""
    try:
        return _spare.pop()
    except IndexError:
        return Out()


def deadline_of(timeout: Optional[float]) -> int:
    """The deadline so many seconds from now; None: never; 0: look once."""
    if timeout is None:
        return FOREVER
    if timeout != timeout:
        raise ValueError("a timeout is a number of seconds, not nan")
    if timeout <= 0:
        return 0
    if timeout >= 1e10:
        return FOREVER
    return int(lib.muster_after_ns(int(timeout * 1e9)))


def take(pointer: c_void_p, length: int) -> bytes:
    """The bytes at a pointer that the library malloc()ed for us; it is freed."""
    try:
        return ctypes.string_at(pointer, length)
    finally:
        free(pointer)


def int_of(number: Any, bits: int, is_signed: bool = True) -> int:
    """A whole number that C has so many bits for: ctypes would cut the others off, and say nothing."""
    n = operator.index(number)
    low = -1 << bits - 1 if is_signed else 0
    if not low <= n < low + (1 << bits):
        raise OverflowError("%d does not fit into %d bits%s" % (n, bits, "" if is_signed else " without a sign"))
    return n


def ids_of(tasks: "Optional[Any]") -> "Tuple[Optional[Any], int]":
    """A list of task ids as C wants it; None: all."""
    if tasks is None:
        return None, 0
    tasks = [int_of(t, 32) for t in tasks]
    if not tasks:
        raise ValueError("no tasks are named; None means all of the job")
    return (c_int32 * len(tasks))(*tasks), len(tasks)
