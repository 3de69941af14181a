// Calls a member function, which reads a member, through a null pointer.
#include <string>

struct Record {
    int pad[10];
    std::string name;
    [[gnu::noinline, gnu::noclone]] unsigned long length() const { return name.size(); }
};

Record *volatile nothing;

int main() {
    return nothing->length() == 3;
}
