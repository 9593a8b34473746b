/* topology/xml.h: whether a text is whole XML, before a parser sees it that trusts it to be. */
#ifndef MU_TOPOLOGY_XML_H
#define MU_TOPOLOGY_XML_H

#include <stddef.h>

/* Elements with attributes in quotes and text, closed in order, not too deep. NULL; or what is wrong, at *ret_line. */
const char *mu_xml_check(const char *text, size_t *ret_line);

#endif
