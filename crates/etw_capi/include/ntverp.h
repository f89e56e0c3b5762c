/* The version of the Windows SDK whose declarations these headers have. */
#ifndef OPENETW_NTVERP_H
#define OPENETW_NTVERP_H

#define VER_PRODUCTBUILD 22621
#define VER_PRODUCTBUILD_QFE 1
#define VER_PRODUCTMAJORVERSION 10
#define VER_PRODUCTMINORVERSION 0

#endif
