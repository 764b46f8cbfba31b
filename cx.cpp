#include <complex>
float s(const std::complex<float> &z){return z.real()+z.imag();}
void zc(std::complex<double>*z,int n){for(int i=0;i<n;++i)z[i]=std::conj(z[i]);}
std::complex<float> r(float a){return {a,1};}
float v(std::complex<float> a){return a.real();}
void rows(const std::complex<float> (*x)[2], std::complex<float> *out, int n){for(int i=0;i<n;i++) out[i]=x[i][0]*x[i][1];}
