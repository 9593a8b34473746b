"""A machine in hwloc's XML form, written by hand, no such node exists: what the pictures of others do not have.

Its PCI forks twice, once not in the order of what is below, one GPU hangs beside the fork, two NVSwitches stand side
by side, the L3 caches are alike, names are long, or meant to end an element, or of letters that are wide, and one CPU
has two processors a core.
"""
import sys

EVIL = "a<b>&\"c\"</title>"
WIDE = "\u52a0\u901f\u5668 \u00e9\u00fc" + " long" * 30
_ids = iter(range(1, 1000))


def sets(cpus):
    mask = sum(1 << cpu for cpu in cpus)
    return ("cpuset='0x%08x' complete_cpuset='0x%08x' nodeset='0x00000001' complete_nodeset='0x00000001' gp_index='%d'"
            % (mask, mask, next(_ids)))


def escape(text):
    for letter, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&quot;")):
        text = text.replace(letter, entity)
    return text


def info(name, value):
    return "<info name='%s' value='%s'/>" % (name, escape(value))


def core(number):
    pus = "".join("<object type='PU' os_index='%d' %s/>" % (cpu, sets([cpu])) for cpu in (number, number + 4))
    return "<object type='Core' os_index='%d' %s>%s</object>" % (number, sets([number, number + 4]), pus)


def l3(first):
    cores = core(first) + core(first + 1)
    return ("<object type='L3Cache' %s cache_size='33554432' depth='3' cache_linesize='64' cache_associativity='16' "
            "cache_type='0'>%s</object>" % (sets([first, first + 1, first + 4, first + 5]), cores))


def bridge(address, below):
    return ("<object type='Bridge' gp_index='%d' bridge_type='1-1' depth='1' bridge_pci='0000:[%s-%s]' "
            "pci_busid='0000:%s:00.0' pci_type='0604 [10b5:9797] [0000:0000] aa' pci_link_speed='0.0'>%s</object>"
            % (next(_ids), address, address, address, below))


def gpu(address, name):
    driver = ("<object type='OSDev' gp_index='%d' name='nvml%s' subtype='NVML' osdev_type='1'>%s%s</object>"
              % (next(_ids), address, info("Backend", "NVML"), info("GPUModel", name)))
    return ("<object type='PCIDev' gp_index='%d' pci_busid='0000:%s:00.0' pci_type='0302 [10de:1db8] [0000:0000] a1' "
            "pci_link_speed='0.0'>%s</object>" % (next(_ids), address, driver))


def nvswitch(address):
    return ("<object type='PCIDev' gp_index='%d' subtype='NVSwitch' pci_busid='0000:%s:00.0' "
            "pci_type='0680 [10de:1ac2] [0000:0000] a1' pci_link_speed='0.0'/>" % (next(_ids), address))


def machine():
    every = range(8)
    fork = bridge("21", bridge("22", gpu("25", WIDE)) + bridge("24", gpu("23", EVIL)))
    beside = bridge("26", gpu("27", "short")) + nvswitch("28") + nvswitch("29")
    nic = ("<object type='PCIDev' gp_index='%d' pci_busid='0000:31:00.0' pci_type='0200 [15b3:101b] [0000:0000] 00' "
           "pci_link_speed='0.0'/>" % next(_ids))
    host = ("<object type='Bridge' gp_index='%d' bridge_type='0-1' depth='0' bridge_pci='0000:[20-2f]'>%s</object>"
            % (next(_ids), fork + beside))
    other = ("<object type='Bridge' gp_index='%d' bridge_type='0-1' depth='0' bridge_pci='0000:[30-3f]'>%s</object>"
             % (next(_ids), nic))
    memory = "<object type='NUMANode' os_index='0' %s local_memory='68719476736'/>" % sets(every)
    package = ("<object type='Package' os_index='0' %s>%s%s%s%s%s%s</object>"
               % (sets(every), info("CPUModel", EVIL + " " + WIDE), memory, l3(0), l3(2), host, other))
    return ("<?xml version='1.0' encoding='UTF-8'?>\n<topology version='2.0'>\n<object type='Machine' os_index='0' %s "
            "allowed_cpuset='0x000000ff' allowed_nodeset='0x00000001'>%s</object>\n</topology>\n" % (sets(every), package))


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")
    print(machine().replace("'", "\""), end="")
